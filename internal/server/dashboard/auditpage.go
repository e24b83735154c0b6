package dashboard

import (
	"net/http"
	"strconv"

	"pando/internal/api"
)

// auditView shows users and tokens with their roles, and the audit log.
type auditView struct {
	Users  []api.User
	Tokens []api.Token
	Lines  []api.Audited
	Older  int64 // the next page starts before this entry; 0: there is none
}

// auditLines is how many entries a page shows.
const auditLines = 100

func (d *Dashboard) auditPage(r *http.Request) (view, error) {
	ctx := r.Context()
	before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	if err != nil {
		before = 0
	}
	v := auditView{}
	if v.Lines, err = d.API.Audit(ctx, before, auditLines); err != nil {
		return view{}, err
	}
	if len(v.Lines) == auditLines {
		v.Older = v.Lines[auditLines-1].Seq
	}
	if v.Users, err = d.API.Users(ctx); err != nil {
		return view{}, err
	}
	if v.Tokens, err = d.API.Tokens(ctx); err != nil {
		return view{}, err
	}
	return view{template: "audit.html", title: "Access", data: v}, nil
}
