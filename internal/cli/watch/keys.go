package watch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// watchKey is the effect of a key on the live table.
type watchKey int

const (
	quitKey watchKey = iota + 1
	upKey
	downKey
	pageUpKey
	pageDownKey
	topKey
	endKey
)

// keyCodes maps the byte sequences that terminals send to their effect.
var keyCodes = map[string]watchKey{
	"q": quitKey, "k": upKey, "j": downKey, "g": topKey, "G": endKey, " ": pageDownKey, "b": pageUpKey,
	"\x1b[A": upKey, "\x1bOA": upKey, "\x1b[B": downKey, "\x1bOB": downKey, "\x1b[5~": pageUpKey,
	"\x1b[6~": pageDownKey,
	"\x1b[H":  topKey, "\x1bOH": topKey, "\x1b[1~": topKey, "\x1b[F": endKey, "\x1bOF": endKey, "\x1b[4~": endKey,
}

// longestKey is the length of the longest sequence in keyCodes.
const longestKey = 4

// parseKeys returns the known keys in the bytes from a terminal, and skips unknown bytes.
func parseKeys(b []byte) (keys []watchKey) {
	for len(b) > 0 {
		used := 1
		for n := min(longestKey, len(b)); n > 0; n-- {
			if k, ok := keyCodes[string(b[:n])]; ok {
				keys, used = append(keys, k), n
				break
			}
		}
		b = b[used:]
	}
	return keys
}

// tableKeys makes a terminal send each key at once and without echo; Ctrl-C still interrupts. restore undoes that.
// Without a terminal, or in the background, no key ever arrives.
func tableKeys(tty *os.File) (keys <-chan watchKey, restore func()) {
	none := func() {}
	if tty == nil {
		return nil, none
	}
	fd := int(tty.Fd())
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || front != unix.Getpgrp() {
		return nil, none
	}
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, none
	}
	now := *was
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &now); err != nil {
		return nil, none
	}
	pressed := make(chan watchKey, 16)
	go func() { // it ends with the program, which is the only reader of this terminal
		buf := make([]byte, 64)
		for {
			n, err := tty.Read(buf)
			if err != nil {
				return
			}
			for _, k := range parseKeys(buf[:n]) {
				pressed <- k
			}
		}
	}()
	return pressed, func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, was) } // fails only if the terminal is gone
}

// errQuit ends the table; the key q returns it.
var errQuit = errors.New("quit")

// tableRoom returns how many nodes fit into a table of the given height. If there are more nodes, one line says how
// many.
func tableRoom(height int) int { return max(1, height-4) }

// move scrolls the table. height is that of the terminal.
func (v *watchView) move(k watchKey, height int) {
	page := max(1, tableRoom(height)-1)
	switch k {
	case upKey:
		v.top--
	case downKey:
		v.top++
	case pageUpKey:
		v.top -= page
	case pageDownKey:
		v.top += page
	case topKey:
		v.top = 0
	case endKey:
		v.top = len(v.nodes)
	}
	v.top = v.topFor(height)
}

// topFor returns the first node to show, so that the last page fills all lines.
func (v watchView) topFor(height int) int {
	if len(v.nodes) <= tableRoom(height) {
		return 0
	}
	return max(0, min(v.top, len(v.nodes)-max(1, tableRoom(height)-1)))
}
