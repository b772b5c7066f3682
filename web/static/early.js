// It runs before anything is shown. The shop sends a page in the language that the browser asks for; here the visitor's own choice
// goes first, which is kept in this browser. All other scripts read the language from the page.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem('miaosha.lang');
  } catch {
    // the browser forbids storage
  }
  if (chosen !== 'zh' && chosen !== 'en') chosen = (navigator.language || 'zh').toLowerCase().startsWith('zh') ? 'zh' : 'en';
  document.documentElement.lang = chosen === 'zh' ? 'zh-CN' : 'en';
}
