package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/fleet"
	"pando/internal/node/agent"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// telling is a node that the server knows: it requests its boot script as iPXE does, loads kernel and initramfs,
// registers, and reports its progress as the agent does. So the dashboard shows its storm.
type telling struct {
	n       *node
	mac     fleet.MAC
	control *http.Client
	config  api.BootConfig
	session string
	version fleet.Digest
	init    time.Time // when kernel and initramfs were loaded: zero of its clock
	agent   *agent.Alone
}

// tellingName returns the name of the node with index i.
func tellingName(i int) string { return fmt.Sprintf("pc%03d", i+1) }

// acquaint declares the storm's nodes on the server, half of them in another room, and makes them boot the storm's
// version.
func (s *Storm) acquaint(ctx context.Context, m *testbed.Material, nodes []*node) error {
	name := s.Image
	if name == string(m.Version) {
		name = "storm"
	}
	if _, err := s.Site.API.AddVersion(ctx, name, api.VersionAdd{Version: m.Version}); err != nil {
		return err
	}
	ref := fleet.Ref(name + "@" + string(m.Version))
	from := fleet.KernelSource(s.kernelFrom)
	if _, err := s.Site.API.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Image: &ref, Settings: fleet.Settings{KernelFrom: &from}}); err != nil {
		return err
	}
	for i, n := range nodes {
		mac, err := n.macOf()
		if err != nil {
			return err
		}
		name := tellingName(i)
		if _, err := s.Site.API.Node(ctx, name); err == nil { // from the last run, in which the links had other rates
			if _, err := s.Site.API.DeleteNodes(ctx, name, false); err != nil {
				return err
			}
		}
		room := []string{"b12", "b14"}[2*i/len(nodes)]
		if _, err := s.Site.API.CreateNode(ctx,
			api.NodeCreate{Name: name, MACs: []fleet.MAC{mac}, Labels: map[string]string{"room": room}}); err != nil {
			return err
		}
		n.tells, n.loads = s.tell, s.k
		n.wrong = (i+1)*s.wrongKernels/len(nodes) > i*s.wrongKernels/len(nodes)
	}
	return nil
}

// macOf returns the MAC address of the node's end of its link.
func (n *node) macOf() (mac fleet.MAC, err error) {
	err = n.Net.Do(func() error {
		link, err := net.InterfaceByName(testkit.LinkName)
		if err == nil {
			mac, err = fleet.ParseMAC(link.HardwareAddr.String())
		}
		return err
	})
	return mac, err
}

func (t *telling) register(ctx context.Context) error {
	begun := time.Since(t.init)
	var answer api.RegisterResponse
	err := t.post(
		ctx,
		"/v1/node/hello",
		"",
		api.RegisterRequest{Boot: t.config.Boot, Token: t.config.Token, MAC: t.mac, Addr: t.n.Net.Addr.Addr().String(),
			Release: t.config.Release, Hardware: fleet.Hardware{
				Vendor: "Pando", Product: "storm lab", Link: int64(t.n.rate),
			}},
		&answer,
	)
	if err != nil {
		return err
	}
	var a fleet.Assignment
	if err := json.Unmarshal(answer.Assignment, &a); err != nil {
		return fmt.Errorf("assignment: %w", err)
	}
	if a.Version != t.n.Material.Version {
		return fmt.Errorf(
			"the server has this node boot %s, the storm is of %s",
			a.Version.Short(),
			t.n.Material.Version.Short(),
		)
	}
	t.session, t.version, t.n.bootID = answer.Session, a.Version, t.config.Boot
	return t.report(
		ctx,
		nil,
		event(trace.Init, trace.End, 0),
		event(trace.Register, trace.Begin, begun),
		event(trace.Register, trace.End, time.Since(t.init)),
		event(trace.Device, trace.Begin, time.Since(t.init)),
	)
}

func event(s trace.Stage, k trace.Kind, at time.Duration) trace.Event {
	return trace.Event{Stage: s, Kind: k, Offset: at}
}

// attached reports that the root can be read. From now on the agent's own code reports incidents.
func (t *telling) attached(ctx context.Context) (err error) {
	at := time.Since(t.init)
	log, err := os.Create(filepath.Join(t.n.Dir, "agent.log"))
	if err != nil {
		return err
	}
	t.agent, err = agent.StartAlone(
		t.n.Dir,
		agent.Config{Boot: t.config.Boot, MAC: t.mac, Session: t.session, Control: t.config.Control,
			ServerKey: t.config.ServerKey, Init: t.init, Dial: t.n.Net.Dial},
		log,
	)
	if err != nil {
		return err
	}
	return t.insist(ctx, nil, event(trace.Device, trace.End, at))
}

// end makes the agent send its remaining reports.
func (t *telling) end(ctx context.Context) error {
	if t.n.killed.Load() {
		stopped, stop := context.WithCancel(ctx)
		stop()
		_ = t.agent.Close(stopped) // a machine without power sends nothing
		return nil
	}
	return t.agent.Close(ctx)
}

// booted reports that the node is up, and which peers and servers sent its root.
func (t *telling) booted(ctx context.Context, at time.Time, p *testbed.BlockRoot) error {
	st, err := p.Client.Status(ctx, 0)
	if err != nil {
		return err
	}
	t.agent.Booted()
	e := event(trace.Booted, trace.End, at.Sub(t.init))
	e.Bytes = st.Bytes
	return t.insist(
		ctx,
		&api.NodeStatus{Version: t.version, Release: t.config.Release, Bytes: st.Bytes, Fed: st.Fed, Reads: st.Reads,
			Rejected: st.Rejected, Stalled: st.Stalled},
		e,
	)
}

// insist repeats a report until the server has received it, because in some storms the server is down for a while.
func (t *telling) insist(ctx context.Context, st *api.NodeStatus, events ...trace.Event) error {
	for {
		err := t.report(ctx, st, events...)
		if err == nil || errors.Is(err, bench.ErrAnswer) || bench.Pause(ctx, testbed.AskAgain) != nil {
			return err
		}
	}
}

func (t *telling) report(ctx context.Context, st *api.NodeStatus, events ...trace.Event) error {
	return t.post(
		ctx,
		"/v1/node/events",
		"Bearer "+t.session,
		api.ReportRequest{Boot: t.config.Boot, Uptime: time.Since(t.init), Events: events, Status: st},
		nil,
	)
}

// post sends JSON to the control port.
func (t *telling) post(ctx context.Context, path, authorization string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if len(t.config.Control) == 0 {
		return fmt.Errorf("boot.json lists no address of a control port")
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		strings.TrimSuffix(t.config.Control[0], "/")+path,
		bytes.NewReader(body),
	)
	if err != nil {
		return err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := t.control.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("POST %s: %w: %s: %s", path, bench.ErrAnswer, resp.Status, data)
	}
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(data, out)
}
