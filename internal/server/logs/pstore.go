package logs

import (
	"context"
	"fmt"
	"strings"

	"pando/internal/registry"
	"pando/internal/trace"
)

// maxPstore limits a log from pstore, in bytes: the console of the boot also holds what netconsole sent.
const maxPstore = registry.MaxConsole / 2

// AddPstore adds the kernel log that boot told found in pstore to the console of the boot that died. A panic also goes
// to that boot's timeline. The log does not name its boot: the last earlier boot whose kernel ran gets it.
func (k *Consoles) AddPstore(ctx context.Context, told registry.Boot, text string) error {
	text = strings.TrimSpace(levelMark.ReplaceAllString(text, ""))
	text = text[max(len(text)-maxPstore, 0):]
	var died registry.Boot
	err := k.registry.View(ctx, func(tx *registry.Tx) error {
		boots, err := tx.Boots(registry.BootFilter{MAC: told.MAC})
		for _, b := range boots {
			if b.Started.Before(told.Started) && !b.Init.IsZero() && b.Started.After(died.Started) {
				died = b
			}
		}
		return err
	})
	if err != nil || died.ID == "" || text == "" {
		return err
	}
	old, err := k.registry.Console(ctx, died.ID)
	if err != nil || strings.Contains(old, text) {
		return err // the log was reported before
	}
	text = fmt.Sprintf("-- left in pstore, found by the next boot, %s --\n%s\n", told.ID, text)
	if err := k.registry.PutConsole(ctx, died.ID, []byte(text), k.now()); err != nil {
		return err
	}
	says := panicked(text)
	p, err := k.registry.Progress(ctx, died.ID)
	if err != nil || says == "" || p[died.ID].Panic {
		return err
	}
	_, err = k.registry.Append(
		ctx,
		trace.Event{
			Time:    k.now(),
			Boot:    died.ID,
			Node:    died.Node,
			MAC:     died.MAC,
			Stage:   p[died.ID].Stage,
			Kind:    trace.Info,
			Message: says,
			Attrs:   map[string]string{trace.AttrPanic: "true"},
		},
	)
	return err
}
