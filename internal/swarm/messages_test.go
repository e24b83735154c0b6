package swarm

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A bitmap survives Compact and Expand, and takes no more bytes than lie between the first missing piece and the last
// piece that the node has.
func TestBitmapInBrief(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pieces := rapid.IntRange(1, 200).Draw(rt, "pieces")
		b := NewBitmap(pieces)
		lacks, has := pieces, -1
		for p := range pieces {
			if rapid.IntRange(0, 9).Draw(rt, "has") < 8 {
				b.Set(p)
				has = p
			} else {
				lacks = min(lacks, p)
			}
		}
		full, rest := b.Compact()
		if back := Expand(full, rest, pieces); !bytes.Equal(back, b) {
			rt.Fatalf("%x came back as %x", b, back)
		}
		if most := max(0, has/8-lacks/8+1); len(rest) > most {
			rt.Fatalf("%d bytes of %x are sent, %d are enough", len(rest), b, most)
		}
	})
	for name, b := range map[string]Bitmap{"less than none": Expand(-1, nil, 20), "more than " +
		"all": Expand(4, nil, 20), "longer than the rest": Expand(2, make(Bitmap, 2), 20)} {
		if b != nil {
			t.Errorf("%s: %x", name, b)
		}
	}
}

// All fields of an announcement, a request and an answer survive encoding.
func TestMessagesHaveAllOfIt(t *testing.T) {
	to := netip.MustParseAddrPort("10.0.0.1:80")
	have := Bitmap{0xff, 1}
	for _, m := range []any{
		EncodeAnnouncement(Announcement{Swarm: "pack", Pieces: 20, Node: to,
			Subnet: netip.MustParsePrefix("10.0.0.0/8"), Location: "r1", LocalOnly: true, Have: have}),
		EncodeRequest(PieceRequest{Swarm: "pack", Node: to, Size: 1,
			Request: Request{Want: []int{20}, Urgent: 1, Limit: 30, Max: 1, Have: have, Avoided: []netip.AddrPort{to},
				FromPeers: 1,
				Timeout:   time.Hour}}),
	} {
		v := reflect.ValueOf(m)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s: nothing of it is in %s", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	other := netip.MustParseAddrPort("10.0.0.2:80")
	a := Answer{
		Grant:         []int{1},
		Held:          []HeldPiece{{2, []netip.AddrPort{to}}, {3, []netip.AddrPort{to, other}}, {Piece: 4}},
		RetryAfter:    time.Second,
		AnnounceDelay: time.Second,
		Banned:        []netip.Addr{to.Addr()},
	}
	if got := EncodeAnswer(a).Answer(); !reflect.DeepEqual(got, a) {
		t.Errorf("%+v came as %+v", a, got)
	}
	if b, err := json.Marshal(EncodeAnswer(a).Who); string(b) != `{"10.0.0.1:80":"2-3","10.0.0.2:80":"3"}` {
		t.Errorf("who has what: %s, %v", b, err)
	}
	members := RequestReplyMessage{Who: map[netip.AddrPort]pieceList{}} // from a tracker that ignores the bounds
	for n := range byte(200) {
		members.Who[at(n)] = pieceList{int(n) * 2, int(n)*2 + 1, 7}
	}
	if named := members.Answer().Held; len(named) != maxListed || len(named[7].Peers) > maxHolders {
		t.Errorf("%d pieces are named, and %d who have one", len(named), len(named[7].Peers))
	}
}

// A list of pieces survives encoding, in its order, and successive pieces become a range.
func TestPiecesAsText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := pieceList(rapid.SliceOfN(rapid.IntRange(0, 60), 0, maxListed).Draw(rt, "pieces"))
		text, _ := l.MarshalText()
		var back pieceList
		if err := back.UnmarshalText(text); err != nil || !slices.Equal(l, back) {
			rt.Fatalf("%v as %q is %v, %v", l, text, back, err)
		}
	})
	if text, _ := (pieceList{12, 13, 14, 20, 7}).MarshalText(); string(text) != "12-14 20 7" {
		t.Errorf("%q", text)
	}
	for _, text := range []string{"x", "-1", "3-", "-", "5-4", "1-2-3", "0-256", "0-200 0-60", "0-99999999",
		"4294967296", "1,2", "1--2"} {
		if l := (pieceList{1}); l.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is %v", text, l)
		}
	}
}
