package nodeapi

import (
	"net/http"

	"pando/internal/api"
	"pando/internal/httpapi"
)

// Limits of lists in a node's report about a command.
const (
	maxDisks  = 256
	maxSynced = 1024
)

// Command answers POST /v1/node/errand: a node's report about a command that it was given.
func (s *Service) Command(w http.ResponseWriter, r *http.Request) error {
	rep, err := httpapi.DecodeReport[api.NodeCommandReport](w, r)
	if err != nil {
		return err
	}
	b, err := s.nodeAuth.Reporter(r, rep.Boot)
	if err != nil {
		return err
	}
	if b.Session.IsZero() {
		return api.NewError(api.Unauthorized, "the boot has no session yet", "")
	}
	rep.Error, rep.Hint = httpapi.Clip(rep.Error, httpapi.MaxMessage), httpapi.Clip(rep.Hint, httpapi.MaxMessage)
	rep.Disks = rep.Disks[:min(len(rep.Disks), maxDisks)]
	for i := range rep.Disks {
		d := &rep.Disks[i]
		for _, p := range []*string{&d.Name, &d.Model, &d.Of, &d.Has, &d.Used} {
			*p = httpapi.Clip(*p, 256)
		}
	}
	rep.Files = rep.Files[:min(len(rep.Files), maxSynced)]
	for i := range rep.Files {
		f := &rep.Files[i]
		for _, p := range []*string{&f.Path, &f.Error, &f.Run, &f.Failed} {
			*p = httpapi.Clip(*p, httpapi.MaxMessage)
		}
	}
	if err := s.synced(r.Context(), rep); err != nil {
		return err
	}
	s.commands.Report(rep)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
