// It runs before anything is shown, and in every browser, so it is written in the JavaScript of 2009.
(function () {
  // The shop sends a page in the language that the browser asks for; here the visitor's own choice goes first, which is kept in this
  // browser. All other scripts read the language from the page.
  var root = document.documentElement, chosen = null;
  try {
    chosen = localStorage.getItem('miaosha.lang');
  } catch (e) {
    // the browser forbids storage
  }
  if (chosen !== 'zh' && chosen !== 'en') chosen = (navigator.language || 'zh').toLowerCase().indexOf('zh') === 0 ? 'zh' : 'en';
  root.lang = chosen === 'zh' ? 'zh-CN' : 'en';

  // Until the page has started, a script that cannot be loaded, read or run shows the words of #lost at once. Without one of its style
  // sheets a page goes on. A file of someone else, as of an extension of the browser, is no loss. What is lost later is in lost.js.
  var self = document.currentScript, files = self ? self.src.slice(0, -'early.js'.length) : '';
  function isOfShop(address) {
    return address.indexOf(files) === 0;
  }
  function lose(event) {
    var from = event.target, tag = from && from.tagName;
    if (document.getElementById('main')) return;
    if (tag === 'LINK' && from.rel === 'stylesheet' && isOfShop(from.href)) loseStyle();
    else if (!tag || (tag === 'SCRIPT' && isOfShop(from.src))) root.setAttribute('data-lost', 'page');
  }
  function loseStyle() {
    if (!root.hasAttribute('data-lost')) root.setAttribute('data-lost', 'part');
  }
  addEventListener('error', lose, true);
  addEventListener('unhandledrejection', lose);
  if (!('noModule' in document.createElement('script'))) root.setAttribute('data-lost', 'page');
  // A script waits for the style sheets above it. One that is lost by now is not there, has no rules, or does not
  // show them.
  var links = document.querySelectorAll('link[rel="stylesheet"]');
  for (var i = 0; i < links.length; i++) {
    if (!isOfShop(links[i].href)) continue;
    try {
      if (!links[i].sheet || links[i].sheet.cssRules.length === 0) loseStyle();
    } catch (e) {
      if (links[i].href.indexOf(location.origin) === 0) loseStyle(); // the rules of a CDN's sheet are a secret
    }
  }

  // The link of #lost needs no script. With one it asks for the files again, too, and keeps the hash.
  document.addEventListener('click', function (event) {
    if (event.target.id !== 'reload') return;
    event.preventDefault();
    location.reload();
  });
})();
