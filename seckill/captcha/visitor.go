package captcha

import (
	"context"

	"miaosha/seckill/gate"
	"miaosha/seckill/purpose"
)

// The sums of visitors without an account belong to no sale and to no session, but to a secret of the visitor's
// browser. They are of purpose.LoginSum, which goes ahead of full budgets (log-in, codes, registering, new passwords,
// new phones), or of purpose.PracticeSum, which opens nothing.

// DrawVisitor draws a sum as a PNG, under the rules of Draw. Refusals: seckill.ErrBusy.
func (c *Sums) DrawVisitor(
	ctx context.Context, of purpose.Purpose, browser string,
) (png []byte, answer string, err error) {
	drawn, answer, err := c.draw(ctx, gate.SumOfVisitor(of, browser), 0)
	if err != nil {
		return nil, "", err
	}
	return drawCaptcha(drawn.text()), answer, nil
}

// SpellVisitor is DrawVisitor with the sum spelled out, under the rules of Spell.
func (c *Sums) SpellVisitor(
	ctx context.Context, of purpose.Purpose, browser string, chinese bool,
) (words, answer string, err error) {
	drawn, answer, err := c.draw(ctx, gate.SumOfVisitor(of, browser), wordsPause)
	if err != nil {
		return "", "", err
	}
	return drawn.words(chinese), answer, nil
}

// CheckVisitor judges the answer to the browser's sum, which is used up whatever the answer is. Refusals: ErrWrong,
// ErrStale, seckill.ErrBusy.
func (c *Sums) CheckVisitor(ctx context.Context, of purpose.Purpose, browser, answer string) error {
	if !c.On() {
		return nil
	}
	return c.check(ctx, gate.SumOfVisitor(of, browser), answer)
}
