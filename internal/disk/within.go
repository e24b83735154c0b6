package disk

import (
	"context"
	"fmt"
	"time"

	"pando/internal/problem"
)

// Within reads from a disk with a timeout, because a broken disk may never answer. A later result is dropped.
func Within[T any](ctx context.Context, device string, wait time.Duration, ask func() (T, error)) (T, error) {
	type answer struct {
		got T
		err error
	}
	there := make(chan answer, 1)
	go func() {
		got, err := ask()
		there <- answer{got, err}
	}()
	enough := time.NewTimer(wait)
	defer enough.Stop()
	var none T
	select {
	case a := <-there:
		return a.got, a.err
	case <-enough.C:
		return none, &problem.Problem{Err: fmt.Errorf("%s does not answer: nothing came after %s", device, wait),
			Hint: "the boot goes on without; is the disk broken?"}
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
