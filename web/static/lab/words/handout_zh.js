export default {
  'handout.title': '讲义',
  'handout.intro': '实验室每课一份，一到两页 A4：正文、问题和写猜想的地方、填运行数字的地方，以及源码里关键的几行。',
  'handout.print': '打印',
  'handout.toLesson': '打开这一课',
  'handout.all': '全部讲义',
  'handout.name': '姓名：',
  'handout.why': '我猜的，以及理由：',
  'handout.run': '运行一次，记下数字',
  'handout.figures': '每一行的数字：',
  'handout.shows': '运行说明了什么：',
};
