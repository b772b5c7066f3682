// Two clicks of one moment are one request.

// The second click of a double click does nothing when the first has sent something: its answer may be here already. A
// key that is held down presses its button once.
let sent = false;
addEventListener('click', (event) => {
  if (event.detail < 2) sent = false;
  else if (sent) { event.preventDefault(); event.stopPropagation(); }
}, true);
addEventListener('keydown', (event) => {
  if (event.repeat && event.key === 'Enter' && event.target.localName !== 'textarea') event.preventDefault();
}, true);

// once sends a request, unless the same one is under way: then it returns the reply of that. A button that is disabled
// when the page is drawn again is too late for a second click of the same moment.
const underWay = new Map();
export function once(path, body, request) {
  const { name, size, lastModified } = body ?? {}; // of a file
  const same = path + '\n' + JSON.stringify(body instanceof Blob ? [name, size, lastModified] : body);
  if (!underWay.has(same)) underWay.set(same, request().finally(() => underWay.delete(same)));
  sent = true;
  return underWay.get(same);
}
