package web

import (
	"net/http"

	"miaosha/seckill/admin"
)

// timelines answers with the steps of a ticket, and with the code of each.
type timelines struct {
	tickets *admin.Tickets
	sources map[string][]sourceFunc // by the step
}

func (t *timelines) answer(w http.ResponseWriter, r *http.Request, ticket string) error {
	line, err := t.tickets.Timeline(r.Context(), ticket)
	if err != nil {
		return err
	}
	code := map[string][]sourceFunc{}
	for _, step := range line.Steps {
		code[step.Name] = t.sources[step.Name]
	}
	return ok(w, 200, struct {
		admin.Timeline
		Code map[string][]sourceFunc `json:"code"` // by the name of a step
	}{line, code})
}
