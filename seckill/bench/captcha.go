package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// withSums sees to it that everybody can get his address: where the shop asks sums, it has to tell their answers. With
// Captcha the addresses that buyers have are taken from them.
func (d *driver) withSums(ctx context.Context, buyers []Buyer) ([]Buyer, error) {
	if d.Captcha {
		buyers = slices.Clone(buyers)
		for i := range buyers {
			buyers[i].Path = ""
		}
	}
	switch {
	case d.Captcha && !d.asksSums:
		return nil, errors.New("--captcha: the shop at " + d.URL + " asks no sums")
	case !d.Captcha && d.asksSums && slices.ContainsFunc(buyers, func(b Buyer) bool { return b.Path == "" }):
		return nil, errors.New("--buyers: without addresses they are asked sums by the shop at " + d.URL + ": --captcha, or miaosha users --sale")
	case !d.Captcha:
		return buyers, nil
	}
	w := worker{t: d.newTurn(plan{}), wire: wire{to: d.to}}
	defer w.wire.close()
	w.write(&buyer{Buyer: buyers[0], sale: w.t.sale, step: stepSum})
	a, err := w.wire.ask(ctx, w.out, answerLimit)
	if err != nil {
		return nil, fmt.Errorf("ask for a sum: %w", err)
	}
	if a.sum == "" {
		return nil, fmt.Errorf("--captcha: the shop at %s doesn't tell the answers to its sums (%d %s); a sandbox started with MIAOSHA_CAPTCHA_ANSWERS=true does",
			d.URL, a.status, field(a.body, "code"))
	}
	return buyers, nil
}
