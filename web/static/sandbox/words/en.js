export default {
  // In place of the texts of a shop that sends parcels
  'address.needed': 'This is a practice shop: nothing is shipped, so no address is needed. A real shop asks here where to send the parcel.',
  'order.more.pending': 'Pay before the deadline, or the unit goes back on sale.',

  // Log-ins with one click
  'lab.top': 'Lab',
  start: 'Log in with one click as',
  'start.more': 'A practice shop: log in with one click as',
  'start.buyer': 'demo buyer',
  'start.admin': 'demo shopkeeper',
  'start.changed': 'The password of this demo account has been changed. Log in with the new one, or run miaosha reset to start over.',

  // Bots
  bots: 'Try a rush on your own',
  'bots.more': ({ n }) => `Send ${n} bots to this sale: all of them click within 4 seconds. They already have purchase addresses, so they solve no sum. They do not pay, so their units go back on sale after the payment deadline.`,
  'bots.send': ({ n }) => `Send ${n} bots`,
  'bots.running': ({ bots }) => `${bots} bots are buying…`,
  'bots.done': ({ bots, bought }) => `${bots} bots have clicked, and ${bought} of them got a unit.`,
  'bots.failed': 'The bots could not finish. The shop\'s log says why.',
  'bots.elsewhere': 'The bots are busy in another sale. Please wait.',
  'bots.clicked': 'Clicked',
  'bots.bought': 'Got a unit',
  'bots.soldOut': 'Too late: sold out',
  'bots.others': 'Refused for another reason',
  'bots.after': ({ ms, slow }) => `Half of the clicks were answered within ${ms} ms, and 99% within ${slow} ms.`,

  // The tour
  tour: 'First steps',
  'tour.step': ({ n, of }) => `First steps, ${n} of ${of}`,
  'tour.1': 'This is a shop for trying things out: the money is play money, and nothing is shipped. Choose a sale that is on now.',
  'tour.2': 'This is a sale. The clock and the units left come from the shop and update automatically. Log in before the next step; the demo buyer needs only one click.',
  'tour.3': 'Press “Buy now”, solve the sum, and wait in the queue: the result appears here automatically. To see a crowd, send bots to the sale.',
  'tour.4': 'A unit is reserved for you while you pay. The cashier is for practice and takes no real money; a unit that is not paid in time goes back on sale.',
  'tour.5': 'See what happened behind the click: an order shows every step of its ticket, and the lab shows how a sale goes wrong and how to fix it.',
  'tour.go.1': 'To the list',
  'tour.go.2': 'Choose a sale',
  'tour.go.3': 'Choose a sale',
  'tour.go.4': 'My orders',
  'tour.go.5': 'To the lab',
  'tour.next': 'Next',
  'tour.back': 'Back',
  'tour.done': 'Done',
  'tour.close': 'Close',
  'tour.again': 'First steps',
};
