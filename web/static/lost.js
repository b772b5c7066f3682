// What a page says when a part of it cannot be loaded, or fails: the connection broke, the shop was upgraded and has other files now,
// or the browser is too old. The words are in page.html, in both languages. Before the page has started they need no script of
// their own: app.css shows them after eight seconds, early.js at once when a script is lost, and without app.css they are seen.
const words = document.getElementById('lost');
const root = document.documentElement;

// started takes the words away, because the page is there. They stay if a part of it is missing.
export function started() {
  if (root.dataset.lost !== 'part') dismiss();
}

function dismiss() {
  delete root.dataset.lost;
  words.remove();
}
document.getElementById('dismiss').onclick = () => {
  dismiss();
  document.getElementById('main')?.focus(); // the button that had it is gone
};

// say shows the words at the edge of a page that goes on: what is typed in it stays.
export function say() {
  root.dataset.lost = 'part';
  if (!words.isConnected) document.body.prepend(words);
}

// load returns what part() imports, and null after it has said that this cannot be loaded. Every import() after the start goes
// through it.
export async function load(part) {
  try {
    return await part();
  } catch {
    if (!left) say();
    return null;
  }
}

let left = false; // for another page, which ends what is on its way
addEventListener('pagehide', () => { left = true; });
addEventListener('pageshow', () => { left = false; });

// An error that no one expects, of a script of the shop, leaves a part of the page as it was.
const scripts = new URL('./', import.meta.url).href;
function onError({ error, reason = error }) {
  if (document.getElementById('main') && reason?.stack?.includes(scripts)) say();
}
addEventListener('error', onError);
addEventListener('unhandledrejection', onError);
