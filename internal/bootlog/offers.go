package bootlog

// offersInARow is how many offers of a boot file firmware may leave alone before the next ones are of the other kind:
// packets are lost, and a client sends DISCOVER again while it waits for an address.
const offersInARow = 2

// Menu tells whether the boot file is offered to the machine's own PXE by a menu of one entry. Most firmware takes it
// without, and by a menu only if UDP port 4011 is open; some takes it by a menu only. The lock is held.
func (c *Entry) Menu() bool { return c.Boot.PXEMenu != (c.offers/offersInARow%2 == 1) }

// Offered counts an offer of a boot file to the machine's own PXE. The lock is held.
func (c *Entry) Offered() { c.offers++ }

// Taken notes that the machine has asked for its boot file: the latest offer was of the right kind. The lock is held.
func (c *Entry) Taken() {
	if c.offers > 0 {
		c.offers--
		c.Boot.PXEMenu, c.offers = c.Menu(), 0
	}
}
