package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// prepareCaptcha checks that every buyer can get a hidden address: a shop with captchas must reveal
// their answers. With Config.Captcha it removes the paths that buyers already have.
func (d *driver) prepareCaptcha(ctx context.Context, buyers []Buyer) ([]Buyer, error) {
	if d.Captcha {
		buyers = slices.Clone(buyers)
		for i := range buyers {
			buyers[i].Path = ""
		}
	}
	switch {
	case d.Captcha && !d.captchaOn:
		return nil, errors.New("--captcha: the shop at " + d.URL + " has no captcha")
	case !d.Captcha && d.captchaOn && slices.ContainsFunc(buyers, func(b Buyer) bool { return b.Path == "" }):
		return nil, errors.New("--buyers: without an address each buyer must solve a captcha at " + d.URL +
			": use --captcha, or miaosha users --sale")
	case !d.Captcha:
		return buyers, nil
	}
	w := worker{t: d.newTurn(plan{}), client: client{to: d.to}}
	defer w.client.close()
	w.writeRequest(&buyer{Buyer: buyers[0], sale: w.t.sale, step: stepCaptcha})
	resp, err := w.client.do(ctx, w.out, responseLimit)
	if err != nil {
		return nil, fmt.Errorf("request a captcha: %w", err)
	}
	if resp.captchaAnswer == "" {
		return nil, fmt.Errorf(
			"--captcha: the shop at %s does not reveal the captcha answers (%d %s); a sandbox with MIAOSHA_CAPTCHA_ANSWERS=true does",
			d.URL, resp.status, jsonValue(resp.body, "code"))
	}
	return buyers, nil
}
