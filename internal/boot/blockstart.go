package boot

import (
	"context"
	"errors"
	"os"
)

// BlockStart starts the two daemons behind the root's block device. It is for init, before anything is
// mounted from that device.
type BlockStart struct {
	Dir    string // "/run/pando": a tmpfs that holds this program as Binary; both daemons are chrooted into it
	Binary string // path of the program below Dir, "/pando-init"
	Config BlockConfig
	Log    *os.File // lines of both daemons: /dev/kmsg
}

// Start returns when the supervisor runs. The device must exist: module nbd loaded with nbds_max=1
// max_part=0. Both daemons get an OOM score of -1000, a session of their own and the names SupervisorName
// and BlockName.
func (s BlockStart) Start() (*BlockProcess, error) { return nil, errors.New("not yet") }

// BlockProcess is a supervisor that init started.
type BlockProcess struct{}

// Ready waits until the kernel has its device, the supervisor gave up, or ctx ends.
func (p *BlockProcess) Ready(ctx context.Context) error { return errors.New("not yet") }

// Stop kills both daemons; only before the device is mounted, to try again.
func (p *BlockProcess) Stop() {}

// Release lets go of the supervisor: from here on it belongs to the node.
func (p *BlockProcess) Release() {}

// RunSupervisor is the role SupervisorName; it returns the exit status. Main calls it by argv[0].
func RunSupervisor() int { return 1 }

// RunBlock is the role BlockName; it returns the exit status. Main calls it by argv[0].
func RunBlock() int { return 1 }

// BlockClient asks the block daemon over its socket.
type BlockClient struct {
	Socket string // "/run/pando/block.sock"
}

// Status returns the counters, and the incidents after since.
func (c BlockClient) Status(ctx context.Context, since int64) (BlockStatus, error) {
	return BlockStatus{}, errors.New("not yet")
}

// SetNetwork tells the daemon what to keep up from now on, after the lease changed.
func (c BlockClient) SetNetwork(ctx context.Context, n Network) error { return errors.New("not yet") }
