package bootlog

// offersInARow is how many offers of a boot file firmware may ignore before the next offers are of the other kind. More
// than one, because packets are lost and a client repeats its DISCOVER while it waits for an address.
const offersInARow = 2

// Menu reports whether the boot file is offered to the machine's own PXE by a menu of one entry. Most firmware takes it
// without a menu, and with one only if UDP port 4011 is open; some takes it only with one. The lock is held.
func (c *Entry) Menu() bool { return c.Boot.PXEMenu != (c.offers/offersInARow%2 == 1) }

// Offered counts an offer of a boot file to the machine's own PXE. The lock is held.
func (c *Entry) Offered() { c.offers++ }

// Taken records that the machine requested its boot file: the latest offer was of the right kind. The lock is held.
func (c *Entry) Taken() {
	if c.offers > 0 {
		c.offers--
		c.Boot.PXEMenu, c.offers = c.Menu(), 0
	}
}
