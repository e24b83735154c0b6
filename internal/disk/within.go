package disk

import (
	"context"
	"fmt"
	"time"

	"pando/internal/problem"
)

// Within calls ask with a timeout, because a broken disk may never answer. A result that arrives later is dropped.
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
			Hint: "is the disk broken? the boot goes on without it"}
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
