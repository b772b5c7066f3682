// The commands of the index are written for a shop at http://127.0.0.1:8080 with its operator's port at 8081, in the sandbox of the user's cache
// folder, and for sale 1. commandHere returns one for this shop: with its addresses, its data folder and an open sale.
import { get } from '../api.js';

const { dir, ops } = document.documentElement.dataset; // of a sandbox that only this machine reaches
const quoted = (text) => (/^[\w/.:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function commandHere(command, sale) {
  return command.replaceAll('http://127.0.0.1:8080', location.origin).replaceAll('http://127.0.0.1:8081', ops ?? 'http://127.0.0.1:8081')
    .replaceAll('./miaosha', dir ? `./miaosha --data-dir ${quoted(dir)}` : './miaosha')
    .replace(/(\/sales\/|--sale |-Jsale=)1\b/g, (_, before) => before + sale);
}

// openSale returns the id of the open sale that ends last, if it has some units left for the commands; undefined if none is open.
export async function openSale() {
  const reply = await get('/api/sales');
  const open = reply.ok ? reply.data.filter((sale) => sale.state === 'open') : [];
  const enough = (sale) => Number(sale.left >= 10);
  return open.sort((a, b) => enough(b) - enough(a) || Date.parse(b.end_at) - Date.parse(a.end_at))[0]?.id;
}
