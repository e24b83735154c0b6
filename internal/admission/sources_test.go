package admission

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

var objects = netboot.Objects{Kernel: "k", Initramfs: "i"}

func loads(i byte) netboot.Machine {
	return netboot.Machine{MAC: mac(i), Address: netip.AddrFrom4([4]byte{10, 0, 0, i}), Objects: objects}
}

func serves(i byte) netboot.Source {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, i}), 8481)
	return netboot.Source{MAC: mac(i), Node: "pc", Address: at, Objects: objects}
}

// A machine loads from a node as soon as one has what it needs, though the server has no slot: also one whose request
// is held open. Each node serves one at a time.
func TestLoadFromNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(netboot.Links{Node: 1e6, Server: 2e6}, time.Now)
		for i := range byte(2) {
			if answer, from := q.Load(loads(i)); answer.Place != 0 || from != nil {
				t.Fatalf("machine %d: %+v from %v; the server has two slots", i, answer, from)
			}
		}
		var admitted []byte
		for i := byte(2); i < 5; i++ {
			answer, _ := q.Load(loads(i))
			if answer.Place != int(i-1) || answer.Hold != sourceHold {
				t.Fatalf("machine %d: %+v, want place %d", i, answer, i-1)
			}
			called, leave := q.Hold(mac(i), answer.Hold)
			go func() {
				defer leave()
				<-called
				if answer, from := q.Load(loads(i)); answer.Place == 0 && len(from) > 0 {
					admitted = append(admitted, i)
				}
			}()
		}
		for round := range 3 { // a node serves; it has served; another node serves, too
			switch round {
			case 0, 2:
				q.AddSource(serves(byte(100 + round)))
			case 1:
				q.Loaded(mac(2), mac(100))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if len(admitted) != round+1 || admitted[round] != byte(round+2) {
				t.Fatalf("round %d: machines %v load from nodes", round, admitted)
			}
		}
		if s := q.Status(); s.Waiting != 0 || s.Loading != 2 || len(q.wants) != 0 || len(q.waiting) != 0 {
			t.Errorf("in the end: %+v, %d want, %d wait", s, len(q.wants), len(q.waiting))
		}
		for i := range byte(2) {
			q.Begin(mac(i)).End()
		}
	})
}

// A machine that got a slot of the server while it waited keeps to it, and takes no node's place.
func TestLoadKeepsItsSlot(t *testing.T) {
	q := twoSlots()
	q.Load(loads(0))
	q.AddSource(serves(100))
	if _, from := q.Load(loads(0)); from != nil {
		t.Errorf("who has a slot is sent to %v", from)
	}
	if _, from := q.Load(loads(1)); len(from) != 1 || from[0].MAC != mac(100) {
		t.Errorf("the next one loads from %v", from)
	}
	q.RemoveSource(mac(100))
	if q.Sources(objects) != 0 {
		t.Error("it still serves")
	}
	q.Loaded(mac(1), fleet.MAC{}, mac(100))
}
