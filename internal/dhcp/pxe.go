package dhcp

import (
	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/netboot"
)

// Tags inside option 43 of a PXE packet (PXE 2.1 table 2-1).
const (
	pxeControl = 6  // discovery control, bits below
	pxeServers = 8  // boot servers by type
	pxeMenu    = 9  // menu: type, text
	pxePrompt  = 10 // time-out in seconds, text
	pxeItem    = 71 // the chosen type and layer
	pxeEnd     = 255
)

// Bits of pxeControl.
const (
	noBroadcast   = 1 // do not look for boot servers by broadcast
	noMulticast   = 2 // do not look for boot servers by multicast
	onlyListed    = 4 // use no boot server that pxeServers does not list
	takeBootFile  = 8 // do not look for boot servers: use the boot file of this packet
	ourType       = 0x8000
	menuText      = "Pando"
	promptAtOnce  = 0
	serversPerSet = 1
)

// useBootFile tells the ROM to load the named file without looking for boot servers. ROMs that get PXEClient and
// nothing in option 43 differ in what they do next: some look for port 4011, some give up.
var useBootFile = []byte{pxeControl, 1, takeBootFile, pxeEnd}

// proxyOffer sends a booting client its boot file and no address (PXE 2.1 section 2.2.3).
func proxyOffer(out *Reply, r Request, v View) {
	if !r.Client.Boots() {
		out.Seen.Reason = "not a client that boots"
		return
	}
	p := newReply(r, v, dhcpv4.MessageTypeOffer)
	if !addBoot(p, r, v, &out.Seen) {
		return
	}
	if v.Menu && r.Client.Kind == netboot.PXE {
		// The file comes with the answer of port 4011. A ROM that sees both a file and a menu here may take either.
		p.BootFileName = ""
		p.DeleteOption(dhcpv4.OptionBootfileName)
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, menu(v)))
	}
	out.Packet = p
}

// menu is a boot menu with one entry, this server, which firmware chooses at once.
func menu(v View) []byte {
	b := []byte{pxeControl, 1, noBroadcast | noMulticast | onlyListed}
	b = append(b, pxeServers, 7, ourType>>8, ourType&0xff, serversPerSet)
	b = append(b, ip(v.Server)...)
	b = append(b, pxeMenu, byte(3+len(menuText)), ourType>>8, ourType&0xff, byte(len(menuText)))
	b = append(b, menuText...)
	b = append(b, pxePrompt, byte(1+len(menuText)), promptAtOnce)
	b = append(b, menuText...)
	return append(b, pxeEnd)
}

// bootService answers on port 4011. Firmware that has an address requests its boot file there: after the menu, or
// always.
func bootService(out *Reply, r Request, v View) {
	if !r.Client.Boots() ||
		r.Type != dhcpv4.MessageTypeRequest && r.Type != dhcpv4.MessageTypeInform &&
			r.Type != dhcpv4.MessageTypeDiscover {
		out.Seen.Reason = "not a request of a client that boots"
		return
	}
	if r.Server.IsValid() && r.Server != v.Server {
		out.Seen.Reason = "the request is for another boot server"
		return
	}
	p := newReply(r, v, dhcpv4.MessageTypeAck)
	p.ClientIPAddr = r.packet.ClientIPAddr
	if !addBoot(p, r, v, &out.Seen) {
		return
	}
	if r.Client.Kind != netboot.HTTPBoot {
		vendor := useBootFile
		if item := pxeTag(r.packet.Options.Get(dhcpv4.OptionVendorSpecificInformation), pxeItem); len(item) == 4 {
			// The reply has to repeat the type and layer that the ROM requested, or the ROM repeats its request.
			vendor = append(append([]byte{pxeItem, 4}, item...), pxeEnd)
		}
		p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, vendor))
	}
	out.Packet = p
}

// pxeTag finds a tag inside option 43.
func pxeTag(b []byte, tag byte) []byte {
	for len(b) >= 2 && b[0] != pxeEnd {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		n := int(b[1])
		if len(b) < 2+n {
			return nil
		}
		if b[0] == tag {
			return b[2 : 2+n]
		}
		b = b[2+n:]
	}
	return nil
}
