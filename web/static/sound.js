// A short sound, for browsers that show a page no notifications. A browser plays it only after a click, so prepare is called on one.
let audio = null;

const Context = window.AudioContext || window.webkitAudioContext;

export const canSound = Boolean(Context);
export const isPrepared = () => audio !== null;

export function prepare() {
  try {
    audio ??= new Context();
    audio.resume();
  } catch {
    // no sound: the page still says what happens
  }
}

// ring plays two tones, the second one higher.
export function ring() {
  if (!audio) return;
  try {
    [[0, 660], [0.22, 880]].forEach(([at, tone]) => {
      const oscillator = audio.createOscillator();
      const gain = audio.createGain();
      const begin = audio.currentTime + at;
      oscillator.frequency.value = tone;
      gain.gain.setValueAtTime(0.3, begin);
      gain.gain.exponentialRampToValueAtTime(0.001, begin + 0.4);
      oscillator.connect(gain).connect(audio.destination);
      oscillator.start(begin);
      oscillator.stop(begin + 0.4);
    });
  } catch {
    // as above
  }
}
