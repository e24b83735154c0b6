package tracker

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// messageTime bounds how long the body of a message may take to arrive.
const messageTime = 20 * time.Second

// Length of a subnet's prefix if the node does not tell it, and the shortest accepted length.
const (
	subnetV4, subnetV6 = 24, 64
	subnetLeast        = 8
)

// Server answers the messages of nodes with the decisions of a Tracker. Mount its handler on the server's image port.
type Server struct {
	start time.Time
	packs Packs
	log   *slog.Logger

	// Authenticated tells whether a node at that address reported to the server lately; nil: every address did. Only
	// these may report wrong bytes, because anybody can have addresses on the boot network.
	Authenticated func(netip.Addr) bool

	mu      sync.Mutex
	tracker *swarm.Tracker
	waiting map[swarm.PackNode]chan swarm.Answer
	joins   map[swarm.Ticket]chan swarm.JoinReply
	objects map[swarm.Ticket]chan struct{} // closed when the object may be sent
	timer   *time.Timer
}

// Packs returns the objects of a pack by the id of its map, in the pack's order. None: the version has no pack. nil:
// the id is unknown. With Packs a Server refuses unknown packs, and knows which transfers were granted.
type Packs func(pack chunk.ID) []chunk.ID

// New returns a server with a new tracker. log receives the bans; nil: no log.
func New(o swarm.TrackerOptions, packs Packs, log *slog.Logger) *Server {
	s := &Server{
		start:   time.Now(),
		packs:   packs,
		tracker: swarm.NewTracker(o),
		waiting: map[swarm.PackNode]chan swarm.Answer{},
		joins:   map[swarm.Ticket]chan swarm.JoinReply{},
		objects: map[swarm.Ticket]chan struct{}{},
		log:     cmp.Or(log, slog.New(slog.DiscardHandler)),
	}
	s.timer = time.AfterFunc(time.Hour, s.pump)
	s.timer.Stop()
	return s
}

func (s *Server) now() time.Duration { return time.Since(s.start) }

// Handler returns the handler of POST requests below /swarm/.
func (s *Server) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("POST /swarm/start", message(s.join))
	m.HandleFunc("POST /swarm/join", message(s.announce))
	m.HandleFunc("POST /swarm/ask", message(s.request))
	m.HandleFunc("POST /swarm/loose", message(s.demand))
	m.HandleFunc("POST /swarm/wrong", message(s.corrupt))
	m.HandleFunc("POST /swarm/leave", message(s.leave))
	return m
}

// message makes a handler of a function from a message to its reply. The function returns false when the tracker does
// not know or accept the node; the node then gets status 404.
func message[Q, A any](answer func(*http.Request, Q) (A, bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(messageTime)) // not every connection has deadlines
		var q Q
		if err := swarm.Decode(r.Body, &q); err != nil {
			http.Error(w, "message cannot be decoded: "+err.Error(), http.StatusBadRequest)
			return
		}
		_ = control.SetReadDeadline(time.Time{})
		a, ok := answer(r, q)
		if !ok {
			http.Error(w, "this node is not in the swarm; announce it first", http.StatusNotFound)
			return
		}
		b, err := json.Marshal(a)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header()["Content-Type"], w.Header()["Date"] = nil, nil // HTTP does not need them
		_, _ = w.Write(append(b, '\n'))                           // fails only when the node is gone
	}
}

func (s *Server) announce(r *http.Request, q swarm.AnnounceMessage) (swarm.AnnounceReplyMessage, bool) {
	node := swarm.NodeAddr(r.RemoteAddr, q.Port.Port())
	if ids := s.pieces(q.Pack); s.packs != nil && (ids == nil || len(ids) != q.Pieces) {
		return swarm.AnnounceReplyMessage{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, ok := s.tracker.Announce(
		s.now(),
		swarm.Announcement{
			Swarm:     q.Pack,
			Pieces:    q.Pieces,
			Node:      node,
			Subnet:    subnet(node.Addr(), q.Prefix),
			Location:  q.Location[:min(len(q.Location), 64)],
			LocalOnly: q.LocalOnly,
			Have:      swarm.Expand(q.Full, q.Have, min(max(q.Pieces, 0), swarm.MaxPieces)),
		},
	)
	return swarm.EncodeAnnounceReply(out), ok
}

// subnet returns the subnet of an address with that prefix length, or with the usual length if bits is out of range.
func subnet(a netip.Addr, bits int) netip.Prefix {
	usual := subnetV4
	if a.Is6() {
		usual = subnetV6
	}
	if bits < subnetLeast || bits > a.BitLen() {
		bits = usual
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

func (s *Server) request(r *http.Request, q swarm.RequestMessage) (swarm.RequestReplyMessage, bool) {
	key := swarm.PackNode{Node: swarm.NodeAddr(r.RemoteAddr, q.Port.Port())}
	s.mu.Lock()
	key.Pack = s.tracker.SwarmKey(q.Pack, key.Node)
	s.mu.Unlock()
	pieces := s.pieces(key.Pack)
	s.mu.Lock()
	a, wait, known := s.tracker.Ask(s.now(), swarm.PieceRequest{Swarm: key.Pack, Node: key.Node, Size: q.Size,
		Request: swarm.Request{
			Want:      q.Want,
			Urgent:    q.Soon,
			Limit:     q.Upto,
			Max:       q.Max,
			Have:      swarm.Expand(q.Full, q.Have, s.tracker.Pieces(key.Pack, key.Node)),
			Avoided:   q.Left,
			FromPeers: q.Fed,
			Timeout:   swarm.Milliseconds(q.Patience, swarm.MessageTimeout(swarm.MaxAnnounceDelay)),
		}})
	if old := s.waiting[key]; old != nil { // the node no longer waits for it
		delete(s.waiting, key)
		close(old)
	}
	if !known || !wait {
		s.tracker.NoteGrants(s.now(), key.Pack, key.Node, a.Grant, pieces)
		s.mu.Unlock()
		return swarm.EncodeAnswer(a), known
	}
	answer := make(chan swarm.Answer, 1)
	s.waiting[key] = answer
	s.step()
	s.mu.Unlock()
	select {
	case a := <-answer: // empty when the node has sent another request meanwhile
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tracker.NoteGrants(s.now(), key.Pack, key.Node, a.Grant, pieces)
		return swarm.EncodeAnswer(a), true
	case <-r.Context().Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting[key] == answer {
			delete(s.waiting, key)
			s.tracker.Cancel(key.Pack, key.Node)
		}
		return swarm.RequestReplyMessage{}, false
	}
}

// step answers the requests that are due, and sets the timer for the rest. The caller holds mu.
func (s *Server) step() {
	now := s.now()
	replies, wake := s.tracker.Step(now)
	for _, r := range replies {
		key := swarm.PackNode{Pack: r.Swarm, Node: r.Node}
		if c := s.waiting[key]; c != nil {
			delete(s.waiting, key)
			c <- r.Answer
		}
	}
	if at := s.stepQueues(now); at > 0 {
		wake = swarm.Earlier(wake, at)
	}
	if wake > 0 {
		s.timer.Reset(max(0, wake-now))
	}
}

func (s *Server) pump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step()
}

// pieces returns the objects of a pack.
func (s *Server) pieces(pack string) []chunk.ID {
	id, err := chunk.ParseID(pack)
	if err != nil || s.packs == nil {
		return nil
	}
	return s.packs(id)
}

// Busy tells the tracker whether kernel+initrd transfers fill the server's uplink.
func (s *Server) Busy(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.Busy(busy)
	s.step()
}

// Nodes returns the number of nodes in all swarms, without silent ones.
func (s *Server) Nodes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.Sweep(s.now())
	return s.tracker.Nodes()
}

func (s *Server) corrupt(r *http.Request, q swarm.CorruptMessage) (struct{}, bool) {
	from := swarm.NodeAddr(r.RemoteAddr, 1).Addr()
	if s.Authenticated != nil && !s.Authenticated(from) {
		return struct{}{}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.Sweep(s.now()) // so that a ban begins now
	if accused := q.Peer.Addr().Unmap().WithZone(""); s.tracker.ReportCorrupt(from, accused) {
		s.log.Warn(
			"a node is banned from the swarms",
			"node",
			accused,
			"for",
			swarm.BanFor,
			"hint",
			"other nodes received wrong bytes from it: check its memory and its disk, and "+
				"whether another machine has its address",
		)
	}
	return struct{}{}, true
}

func (s *Server) leave(r *http.Request, q swarm.LeaveMessage) (struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker.Leave(q.Pack, swarm.NodeAddr(r.RemoteAddr, q.Port.Port()))
	return struct{}{}, true
}
