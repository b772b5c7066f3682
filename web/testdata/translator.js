// Does to a page what a browser's translator does, for tests: each run of text nodes beside each other is replaced by one
// <font><font>[its text]</font></font>, also what comes later. The marks [ and ] stand for the other language. What has translate="no", and what
// is code or typed, stays. A test changes ways of it: inside puts the page's own text nodes into a <font> each, as some translators do; last
// inserts the <font> before it takes the text away, first takes the text away before it inserts the <font>.
window.translatePage = (root, way = '') => {
  const STAYS = '[translate="no"], .notranslate, font, script, style, textarea, option, code, pre, title';
  const isText = (node) => node?.nodeType === Node.TEXT_NODE;
  const wrap = (run) => {
    const [outer, inner] = [document.createElement('font'), document.createElement('font')];
    outer.append(inner);
    const [first] = run, parent = first.parentNode, after = run.at(-1).nextSibling;
    const said = '[' + run.map((text) => text.data).join('') + ']';
    if (way === 'last') parent.insertBefore(outer, first);
    if (way === 'inside') {
      parent.insertBefore(outer, first);
      first.data = said;
      inner.append(first);
      return;
    }
    inner.append(said);
    if (way === 'first') {
      run.reverse().forEach((text) => text.remove());
      parent.insertBefore(outer, after);
    } else if (way === 'last') {
      run.forEach((text) => text.remove());
    } else {
      run.slice(1).forEach((text) => text.remove());
      first.replaceWith(outer);
    }
  };
  const translate = () => {
    const runs = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode;
      if (text.parentElement.closest(STAYS) || (way !== 'inside' && isText(text.previousSibling) && runs.at(-1)?.at(-1) === text.previousSibling && runs.at(-1).push(text))) continue;
      runs.push([text]);
    }
    runs.filter((run) => run.some((text) => text.data.trim())).forEach(wrap);
    observer.takeRecords();
  };
  const observer = new MutationObserver(translate);
  observer.observe(root, { childList: true, subtree: true, characterData: true });
  document.documentElement.classList.add('translated-ltr');
  translate();
  return () => observer.disconnect();
};
