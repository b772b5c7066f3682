// A picture before it is sent. Whatever this browser can show becomes what the shop takes: upright, in the colours of sRGB, no larger
// than it is kept, and without the place where it was taken.
import { withoutTurn } from './picture_upright.js';

const SIDE = 1200; // px of the longer side, as the shop keeps it
const SMALLER = 960; // a PNG of this side always fits
const MOST = 5 * 2 ** 20; // bytes that the shop takes
const BEGINNING = 4096; // bytes that show a file's format
const OPENED = 256 * 2 ** 20; // bytes; a larger file is no picture, and would only fill the memory
const SVG = 'image/svg+xml';

// prepare returns the body to send. With note it is not what it should be: unopened, a file that this browser cannot show, or its
// beginning, so that the shop says what it is; or original. With problem there is nothing to send.
export async function prepare(file) {
  if (file.size > OPENED) return { body: file.slice(0, BEGINNING), note: 'unopened' };
  let upright = null;
  try {
    upright = await withoutTurn(file);
  } catch {
    return { problem: 'unreadable' }; // it was moved or changed, or is a folder
  }
  const asItIs = file.size > MOST ? file.slice(0, BEGINNING) : file;
  if (!file.size || !upright) return { body: asItIs }; // the shop says that it is empty, or damaged
  const large = asItIs !== file && upright.taken;
  if (!isFaithful()) return large ? { problem: 'protected' } : { body: asItIs, note: 'original' };
  const body = (await made(upright)) ?? (await made({ ...upright, blob: new Blob([file], { type: SVG }) }));
  if (body) return { body };
  return large ? { problem: 'heavy' } : { body: asItIs, note: 'unopened' };
}

// made returns what the shop takes; null if the browser cannot open the file, or has not the memory.
async function made({ blob, turn }) {
  const img = new Image();
  img.src = URL.createObjectURL(blob);
  try {
    await img.decode();
    for (const side of [SIDE, SMALLER]) {
      const body = await encode(draw(img, turn, blob.type === SVG, side));
      if (body && body.size <= MOST) return body;
    }
  } catch {
    // null says it
  } finally {
    URL.revokeObjectURL(img.src);
  }
  return null;
}

// draw draws a picture no larger than side. From a much larger one it goes in two steps, so that each pixel counts in every browser.
function draw(img, turn, vector, side) {
  const { naturalWidth: width, naturalHeight: height } = img;
  const scale = Math.min(vector ? Infinity : 1, side / Math.max(width, height));
  const [w, h] = [width, height].map((n) => Math.max(1, Math.round(n * scale)));
  const half = 2 * w < width ? canvasOf(2 * w, 2 * h, (context) => context.drawImage(img, 0, 0, 2 * w, 2 * h)) : img;
  const [a, b, c, d] = turn;
  return canvasOf(a ? w : h, a ? h : w, (context) => {
    context.setTransform(a, b, c, d, a + c < 0 ? w * -a + h * -c : 0, b + d < 0 ? w * -b + h * -d : 0);
    context.drawImage(half, 0, 0, w, h);
  });
}

function canvasOf(width, height, fill) {
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  const context = contextOf(canvas);
  context.imageSmoothingQuality = 'high';
  fill(context);
  return canvas;
}

const contextOf = (canvas) => canvas.getContext('2d', { willReadFrequently: true });

// encode returns a photo as JPEG, and a picture with transparent parts as PNG; null if the browser has drawn nothing, for want of memory.
function encode(canvas) {
  const context = contextOf(canvas);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  let least = 255;
  let most = 0;
  for (let i = 3; i < data.length; i += 4) {
    least = Math.min(least, data[i]);
    most = Math.max(most, data[i]);
  }
  if (!most) { // nothing is drawn, or the picture is transparent all over
    context.resetTransform();
    context.fillRect(0, 0, 1, 1);
    [, , , most] = context.getImageData(0, 0, 1, 1).data;
    context.clearRect(0, 0, 1, 1);
  }
  return most ? new Promise((done) => canvas.toBlob(done, least < 255 ? 'image/png' : 'image/jpeg', 0.94)) : null;
}

// isFaithful reports whether the browser hands out what is drawn. To hide which device this is, some return white or anything instead;
// others change it by so little that no one sees it.
function isFaithful() {
  const value = (n) => [n % 256, (n * 7) % 256, (n * 31) % 256];
  const canvas = canvasOf(32, 32, (context) => {
    for (let n = 0; n < 1024; n++) {
      context.fillStyle = `rgb(${value(n)})`;
      context.fillRect(n % 32, n >> 5, 1, 1);
    }
  });
  const { data } = contextOf(canvas).getImageData(0, 0, 32, 32);
  return data.every((got, i) => Math.abs(got - [...value(i >> 2), 255][i % 4]) < 8);
}
