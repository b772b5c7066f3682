export default {
  'handout.title': 'Handouts',
  'handout.intro': 'One for each lesson of the lab, on one or two A4 pages: the text, the question with room for a guess, room for the figures of the run, and the key lines of the source.',
  'handout.print': 'Print',
  'handout.toLesson': 'Open the lesson',
  'handout.all': 'All handouts',
  'handout.name': 'Name:',
  'handout.why': 'My guess, and why:',
  'handout.run': 'Run it, and write down the figures',
  'handout.figures': 'The figures of each row:',
  'handout.shows': 'What the run shows:',
};
