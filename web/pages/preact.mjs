// What web/static/lib/preact.js is made of, by `npm run preact`: what the pages use of Preact, its hooks and htm, in one file.
import { h } from 'preact';
import htm from 'htm';

export { options, render } from 'preact';
export { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
export const html = htm.bind(h);
