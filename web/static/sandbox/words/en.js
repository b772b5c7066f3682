export default {
  // In place of the texts of a shop that sends parcels
  'address.needed': 'This is a practice shop: nothing is sent, and no address is needed. A shop asks here where the parcel goes.',
  'order.more.pending': 'Pay before the time is over. Otherwise the unit goes back on sale.',

  // Log-ins with one press
  'lab.top': 'Lab',
  start: 'Log in with one press as',
  'start.more': 'A practice shop: log in with one press as',
  'start.buyer': 'demo buyer',
  'start.admin': 'demo shopkeeper',
  'start.changed': 'The password of this demo account was changed. Log in with the new one, or run miaosha reset to begin again.',

  // Bots
  bots: 'See a rush on your own',
  'bots.more': ({ n }) => `Send ${n} bots to this sale: all of them click within 4 seconds. They have hidden addresses already, so they solve no sum. They do not pay: when their time to pay is over, their units come back.`,
  'bots.send': ({ n }) => `Send ${n} bots`,
  'bots.running': ({ bots }) => `${bots} bots are on their way…`,
  'bots.done': ({ bots, bought }) => `${bots} bots have clicked, and ${bought} of them got a unit.`,
  'bots.failed': 'The bots could not finish. The log of the shop says why.',
  'bots.elsewhere': 'Bots are at another sale. Please wait.',
  'bots.clicked': 'Clicked',
  'bots.bought': 'Got a unit',
  'bots.soldOut': 'Too late: sold out',
  'bots.others': 'Refused for another reason',
  'bots.after': ({ ms, slow }) => `Half of the clicks were answered within ${ms} ms, and 99 % within ${slow} ms.`,

  // The tour
  tour: 'First steps',
  'tour.step': ({ n, of }) => `First steps, ${n} of ${of}`,
  'tour.1': 'This is a shop to try things out: the money is play money, and nothing is sent. Choose a sale that is on now.',
  'tour.2': "This is a sale. The clock and the units left are the shop's own, and keep themselves up to date. Log in before the next step; the demo buyer needs one press.",
  'tour.3': 'Press “Buy now”, solve the sum, and wait in line: the result appears here by itself. To see a crowd, send bots to the sale.',
  'tour.4': 'A unit is kept for you while you pay. The cashier is for practice and takes no money; a unit that is not paid in time goes on sale again.',
  'tour.5': 'See what happened behind the click: an order shows every step of its ticket, and the lab shows how a sale goes wrong and how it is put right.',
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
