package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"pando/internal/fleet"
)

// How many boots are kept for each MAC, and together for all MACs without a node. The latter bounds what unknown
// machines can make the server store.
const (
	BootsPerMAC  = 30
	BootsUnknown = 2000
)

// Boot is what the server must still know about a boot after a restart. Progress has the stage that the boot reached.
type Boot struct {
	ID        fleet.BootID
	MAC       fleet.MAC
	Node      string     // "": the MAC belongs to no node
	Addr      netip.Addr // address that DHCP gave to the MAC, or saw it request
	Firmware  string     // "bios", "uefi-x86-64", ... for people
	PXEMenu   bool       // the firmware requested its boot file after a PXE menu offered it
	Started   time.Time  // first packet
	Exchanged time.Time  // last DHCP exchange that gave Addr
	Scripted  time.Time  // boot script sent to Addr
	Version   fleet.Digest
	Image     fleet.Ref // image that the node was to boot

	// Drivers are the driver archives that the boot was given. The last list is the present one; the boot did not
	// succeed with the lists before. A list has names separated by spaces; "*" means the archives for every NIC.
	Drivers []string

	Token     Hash // of the token in the initramfs; zero: no token was made
	TokenMade time.Time
	TokenUsed time.Time // zero: not redeemed
	Nonce     Hash      // of the nonce that was sent when the token was redeemed
	Session   Hash      // of the session credential that the token was exchanged for

	Init     time.Time       // time of the node's Init event on the server's clock; zero: not reached
	Hardware json.RawMessage // as the node reported it

	Server netip.Addr        // address of this server at which the node registered
	Config map[string]string // digests of the config files that the boot was given, by path

	Approved time.Time // time when an operator allowed the boot to get secrets; zero: not allowed
	Proof    string    // public key of the TPM that signed the boot's registration; "": none
}

const bootColumns = `SELECT id, mac, node, addr, firmware, started, exchanged, scripted, version, image, token, token_made,
	token_used, nonce, session, init, hardware, drivers, server, config, approved, proof, pxe_menu FROM boots`

// BootFilter selects boots. The zero filter selects all.
type BootFilter struct {
	Node  string    // of this node
	MAC   fleet.MAC // of this MAC
	Since time.Time // started then or later
	Limit int       // at most this many, the newest; 0: all
}

// Boots returns boots, newest first.
func (t *Tx) Boots(f BootFilter) ([]Boot, error) {
	if f.Limit <= 0 {
		f.Limit = -1
	}
	where, args := ` WHERE started >= ?`, []any{stamp(f.Since)}
	if f.Node != "" { // without this condition the query uses the index
		where, args = where+` AND node = ?`, append(args, f.Node)
	}
	if !f.MAC.IsZero() {
		where, args = where+` AND mac = ?`, append(args, f.MAC.String())
	}
	clause, arg := t.limitNodes("node")
	b, err := list(
		t,
		scanBoot,
		bootColumns+where+clause+` ORDER BY started DESC, id LIMIT ?`,
		append(args, arg, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list boots: %w", err)
	}
	return t.overlaid(b, f), nil
}

// few is the largest number of nodes that are looked up one by one through an index. For more nodes a full scan is
// faster.
const few = 100

// LatestBoots returns the latest boot of each of these nodes, by name; of every node if none or many are named.
func (t *Tx) LatestBoots(nodes ...string) (map[string]Boot, error) {
	if len(nodes) > 0 && len(nodes) <= few {
		return t.latestBootsOf(nodes)
	}
	clause, arg := t.limitNodes("node")
	boots, err := list(t, scanBoot, bootColumns+` WHERE id IN (SELECT id FROM (SELECT id, max(started) FROM boots
		WHERE node != ''`+clause+` GROUP BY node))`, arg)
	if err != nil {
		return nil, fmt.Errorf("list latest boots: %w", err)
	}
	out := make(map[string]Boot, len(boots))
	for _, b := range append(boots, t.only(func(b Boot) bool { return b.Node != "" })...) {
		if b = t.over.boot(b); !b.Started.Before(out[b.Node].Started) {
			out[b.Node] = b
		}
	}
	return out, nil
}

func (t *Tx) latestBootsOf(nodes []string) (map[string]Boot, error) {
	out := make(map[string]Boot, len(nodes))
	for _, n := range nodes {
		if n == "" {
			continue
		}
		b, err := t.Boots(BootFilter{Node: n, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(b) > 0 {
			out[n] = b[0]
		}
	}
	return out, nil
}

// Boot returns one boot, or ErrNotFound.
func (t *Tx) Boot(id fleet.BootID) (Boot, error) {
	if b := t.only(func(b Boot) bool { return b.ID == id }); len(b) > 0 {
		return b[0], nil
	}
	clause, arg := t.limitNodes("node")
	b, err := one(t.row(bootColumns+` WHERE id = ?`+clause, string(id), arg), scanBoot, "boot", string(id))
	return t.over.boot(b), err
}

// BootBySession returns the boot with the session of a digest, or ErrNotFound.
func (t *Tx) BootBySession(h Hash) (Boot, error) {
	if h.IsZero() {
		return Boot{}, notFound("boot of", "no session")
	}
	if b := t.only(func(b Boot) bool { return b.Session == h }); len(b) > 0 {
		return b[0], nil
	}
	b, err := one(t.row(bootColumns+` WHERE session = ?`, h[:]), scanBoot, "boot of", "this session")
	if err == nil && t.over.boot(b).Session != h {
		return Boot{}, notFound("boot of", "this session")
	}
	return b, err
}

// EndSessions ends the sessions of a MAC's other boots: a node uses the session of its latest boot.
func (t *Tx) EndSessions(m fleet.MAC, except fleet.BootID) error {
	if t.change != nil {
		t.change.endSessions(m, except)
		return nil
	}
	_, err := t.exec(
		`UPDATE boots SET session = NULL WHERE mac = ? AND id != ? AND session IS NOT NULL`, m.String(),
		string(except),
	)
	if err != nil {
		return fmt.Errorf("end sessions of %s: %w", m, err)
	}
	return nil
}

// CreateBoot records a new boot, and deletes the oldest boots beyond BootsPerMAC and BootsUnknown.
func (t *Tx) CreateBoot(b Boot) error {
	if _, err := t.Boot(b.ID); !errors.Is(err, ErrNotFound) {
		return taken(err, "boot", string(b.ID))
	}
	if t.change != nil {
		t.change.boots[b.ID] = b
		return nil
	}
	_, err := t.exec(
		`INSERT INTO boots (mac, node, addr, firmware, started, exchanged, scripted, version, image, token, token_made,
		token_used, nonce, session, init, hardware, drivers, server, config, approved, proof, pxe_menu, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		bootValues(b)...)
	if err != nil {
		return fmt.Errorf("create boot %s: %w", b.ID, err)
	}
	if b.Node == "" {
		_, err = t.exec(
			`DELETE FROM boots WHERE id IN (SELECT id FROM boots WHERE node = '' ORDER BY started DESC LIMIT -1 OFFSET ?)`,
			BootsUnknown,
		)
	} else {
		_, err = t.exec(`DELETE FROM boots WHERE id IN (SELECT id FROM boots WHERE mac = ? ORDER BY started DESC LIMIT -1 OFFSET ?)`,
			b.MAC.String(), BootsPerMAC)
	}
	if err != nil {
		return fmt.Errorf("forget old boots: %w", err)
	}
	return nil
}

// PutBoot replaces the boot with this ID, or returns ErrNotFound.
func (t *Tx) PutBoot(b Boot) error {
	if t.change != nil {
		_, err := t.Boot(b.ID)
		if err == nil {
			t.change.boots[b.ID] = b
		}
		return err
	}
	n, err := t.exec(
		`UPDATE boots SET mac = ?, node = ?, addr = ?, firmware = ?, started = ?, exchanged = ?, scripted = ?, version = ?,
		image = ?, token = ?, token_made = ?, token_used = ?, nonce = ?, session = ?, init = ?, hardware = ?, drivers = ?, server = ?, config = ?, approved = ?, proof = ?, pxe_menu = ? WHERE id = ?`,
		bootValues(b)...)
	if err != nil {
		return fmt.Errorf("change boot %s: %w", b.ID, err)
	}
	if n == 0 {
		return notFound("boot", string(b.ID))
	}
	return nil
}

func bootValues(b Boot) []any {
	return []any{
		b.MAC.String(), b.Node, addrText(b.Addr), b.Firmware, stamp(b.Started), stamp(b.Exchanged),
		stamp(b.Scripted), string(b.Version), string(b.Image), b.Token.bytes(), stamp(b.TokenMade),
		stamp(b.TokenUsed), b.Nonce.bytes(), b.Session.bytes(), stamp(b.Init), string(b.Hardware),
		strings.Join(b.Drivers, "\n"), addrText(b.Server), pack(b.Config, len(b.Config) == 0), stamp(b.Approved),
		b.Proof, b.PXEMenu, string(b.ID),
	}
}

func scanBoot(s scanner) (Boot, error) {
	var b Boot
	var mac, addr, hardware, drivers, server, config string
	var started, exchanged, scripted, made, used, init, approved int64
	err := s.Scan(
		&b.ID, &mac, &b.Node, &addr, &b.Firmware, &started, &exchanged, &scripted, &b.Version, &b.Image, &b.Token,
		&made, &used, &b.Nonce, &b.Session, &init, &hardware, &drivers, &server, &config, &approved, &b.Proof,
		&b.PXEMenu,
	)
	if err != nil {
		return b, err
	}
	b.Started, b.Exchanged, b.Scripted = unstamp(started), unstamp(exchanged), unstamp(scripted)
	b.TokenMade, b.TokenUsed, b.Init, b.Approved = unstamp(made), unstamp(used), unstamp(init), unstamp(approved)
	if hardware != "" {
		b.Hardware = json.RawMessage(hardware)
	}
	if drivers != "" {
		b.Drivers = strings.Split(drivers, "\n")
	}
	if b.Addr, err = parseAddr(addr); err != nil {
		return b, err
	}
	if b.Server, err = parseAddr(server); err == nil {
		err = unpack(config, &b.Config)
	}
	if err != nil {
		return b, err
	}
	b.MAC, err = fleet.ParseMAC(mac)
	return b, err
}
