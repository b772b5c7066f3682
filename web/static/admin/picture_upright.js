// How a camera was held, by the EXIF of a JPEG, a PNG or a WebP. Browsers follow it in some formats and not in others, so it is taken
// out of the file before a browser opens it, and the page turns the picture itself. Browsers also show the half of a picture that is
// there, in gray for the rest.

// HELD are the parts a, b, c and d of a canvas's transform, by EXIF's number from 1, as it is.
const HELD = [[1, 0, 0, 1], [-1, 0, 0, 1], [-1, 0, 0, -1], [1, 0, 0, -1], [0, 1, 1, 0], [0, 1, -1, 0], [0, -1, -1, 0], [0, -1, 1, 0]];

// withoutTurn returns the file as it is to be opened, the transform with which it is to be drawn, and whether it is of a format that the
// shop takes; null if its end is missing.
export async function withoutTurn(file) {
  const view = new DataView(await file.arrayBuffer());
  const jpeg = text(view, 0, 2) === '\xff\xd8', png = text(view, 1, 3) === 'PNG', webp = text(view, 8, 4) === 'WEBP';
  const taken = jpeg || png || webp;
  let found = null;
  for (const part of jpeg ? jpegParts(view) : taken ? chunks(view, png) : []) {
    if (part.cut) return null;
    found ??= turnOf(view, part);
  }
  if (!found) return { blob: file, turn: HELD[0], taken };
  const { from, to, value } = found;
  // A PNG has a sum of the chunk, so the chunk goes; elsewhere the number becomes 1.
  const parts = from ? [file.slice(0, from), file.slice(to)] : [file.slice(0, value.at), Uint8Array.from(value.one), file.slice(value.at + 2)];
  return { blob: new Blob(parts, { type: file.type }), turn: HELD[value.n - 1], taken };
}

const text = (view, at, length) => String.fromCharCode(...Array.from({ length }, (_, i) => (at + i < view.byteLength ? view.getUint8(at + i) : 0)));

// turnOf returns the place of the number in an EXIF, unless it is 1.
function turnOf(view, { tiff, from, to }) {
  const value = orientation(view, text(view, tiff, 6) === 'Exif\0\0' ? tiff + 6 : tiff, to);
  return value && { from, to, value };
}

// orientation reads the tag 0x0112 of the first directory of a TIFF header.
function orientation(view, head, end) {
  const little = text(view, head, 2) === 'II';
  if (head + 8 > end) return null;
  const directory = head + view.getUint32(head + 4, little);
  if (directory + 2 > end) return null;
  for (let n = view.getUint16(directory, little), at = directory + 2; n > 0 && at + 12 <= end; n--, at += 12) {
    const value = view.getUint16(at + 8, little);
    if (view.getUint16(at, little) === 0x0112) return value > 1 && value <= 8 ? { n: value, at: at + 8, one: little ? [1, 0] : [0, 1] } : null;
  }
  return null;
}

// jpegParts yields the EXIF of a JPEG, which comes before its first scan.
function* jpegParts(view) {
  let at = 2;
  while (at + 4 <= view.byteLength && view.getUint8(at) === 0xff && view.getUint8(at + 1) !== 0xda) {
    const marker = view.getUint8(at + 1);
    const to = marker === 0xff ? at + 1 : at + 2 + view.getUint16(at + 2);
    if (marker === 0xe1 && to <= view.byteLength && text(view, at + 4, 6) === 'Exif\0\0') yield { tiff: at + 4, to };
    at = to;
  }
  const bytes = new Uint8Array(view.buffer);
  while (at >= 0 && bytes[at + 1] !== 0xd9) at = bytes.indexOf(0xff, at + 1); // within a scan it is the end of the picture
  if (at < 0) yield { cut: true };
}

// chunks yields the EXIF of a PNG or a WebP.
function* chunks(view, png) {
  let name = '';
  for (let at = png ? 8 : 12; name !== 'IEND' && at + 8 <= view.byteLength;) {
    name = text(view, at + (png ? 4 : 0), 4);
    const size = view.getUint32(at + (png ? 0 : 4), !png);
    const to = at + 8 + size + (png ? 4 : 0);
    if (to > view.byteLength) yield { cut: true };
    else if (name === 'eXIf') yield { tiff: at + 8, from: at, to };
    else if (name === 'EXIF') yield { tiff: at + 8, to };
    at = to + (png ? 0 : size % 2);
  }
  if (png && name !== 'IEND') yield { cut: true };
}
