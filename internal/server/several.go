package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/sockopt"

	"pando/internal/store"
)

// serveSeveral answers POST /o, which has a line of 64 hex digits for each object, with the first ones of them, end
// to end: as many as are at hand. See store.HTTP.GetSeveral.
func (s *Server) serveSeveral(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Direct != nil { // nodes are to ask a bucket, which sends objects singly
		return fs.ErrNotExist
	}
	ids, err := objectIDs(w, r)
	if err != nil {
		return err
	}
	all, length, err := s.openSeveral(r, ids)
	defer closeSeveral(all)
	if err != nil || len(all) == 0 {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	defer s.uploads.Enter(r.Context(), length)()
	for i, o := range all {
		if err == nil {
			_, err = io.CopyN(w, o.file, o.size) // by sendfile(2)
		}
		s.swarm.Sent(asker(r), ids[i]) // well or not
	}
	if http.NewResponseController(w).Flush() == nil {
		sockopt.Drain(r.Context(), uploadTime)
	}
	return nil
}

// sized is an open object.
type sized struct {
	file *os.File
	size int64
}

func closeSeveral(all []sized) {
	for _, o := range all {
		_ = o.file.Close()
	}
}

// openSeveral opens the first ones of some objects: those that are on the disk of this server, and that may be sent
// now. The first of all is waited for, and brought from where the store is kept, as if it had been asked for
// singly.
func (s *Server) openSeveral(r *http.Request, ids []chunk.ID) (all []sized, length int64, err error) {
	open, admit := s.store.Open, s.swarm.Admit
	for _, id := range ids {
		f, err := open(id)
		if err != nil {
			if len(all) > 0 { // it is asked for singly next
				err = nil
			}
			return all, length, err
		}
		info, err := f.Stat()
		if err != nil || !admit(r.Context(), asker(r), id, info.Size()) {
			return all, length, errors.Join(err, f.Close())
		}
		all, length = append(all, sized{f, info.Size()}), length+info.Size()
		open, admit = s.store.OpenHere, s.swarm.AdmitNow
	}
	return all, length, nil
}

// objectIDs reads the names of some objects.
func objectIDs(w http.ResponseWriter, r *http.Request) (ids []chunk.ID, err error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // not every connection has deadlines
	lines := bufio.NewScanner(http.MaxBytesReader(w, r.Body, store.MostSeveral*objectLine))
	for lines.Scan() {
		id, err := objectID(lines.Text())
		if err != nil {
			return nil, api.NewError(
				api.BadRequest,
				fmt.Sprintf("line %d of the body is not the name of an object", len(ids)+1),
				"send 64 hex digits a line",
			)
		}
		ids = append(ids, id)
	}
	_ = control.SetReadDeadline(time.Time{})
	if lines.Err() == nil && len(ids) == 0 {
		return nil, api.NewError(api.BadRequest, "no object is named", "send 64 hex digits a line")
	}
	return ids, lines.Err()
}

// objectLine is the length of an object's name and its line's end.
const objectLine = 65
