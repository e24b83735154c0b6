package watch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// watchKey is what a key asks the live table for.
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

// keyCodes are what terminals send for keys, in the forms that are in use.
var keyCodes = map[string]watchKey{
	"q": quitKey, "k": upKey, "j": downKey, "g": topKey, "G": endKey, " ": pageDownKey, "b": pageUpKey,
	"\x1b[A": upKey, "\x1bOA": upKey, "\x1b[B": downKey, "\x1bOB": downKey, "\x1b[5~": pageUpKey,
	"\x1b[6~": pageDownKey,
	"\x1b[H":  topKey, "\x1bOH": topKey, "\x1b[1~": topKey, "\x1b[F": endKey, "\x1bOF": endKey, "\x1b[4~": endKey,
}

// longestKey is how many bytes a terminal sends for one key that is known.
const longestKey = 4

// parseKeys finds the keys in what a terminal sent. Others are passed over.
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

// tableKeys has a terminal tell keys as they are pressed, and does not show them. Ctrl-C interrupts as ever.
// restore makes the terminal what it was; without a terminal, or in the background, there are no keys.
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
	go func() { // it ends with the program: nobody else reads from this terminal
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
	return pressed, func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, was) } // a terminal that is gone needs nothing
}

// errQuit ends the table because somebody pressed q.
var errQuit = errors.New("quit")

// tableRoom is how many nodes a table has room for on so many lines; where there are more, one line less, which
// says so.
func tableRoom(height int) int { return max(1, height-4) }

// move turns to other nodes, on a terminal of so many lines.
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

// topFor is the first node that is shown: never so late that lines stay empty.
func (v watchView) topFor(height int) int {
	if len(v.nodes) <= tableRoom(height) {
		return 0
	}
	return max(0, min(v.top, len(v.nodes)-max(1, tableRoom(height)-1)))
}
