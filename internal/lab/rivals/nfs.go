package rivals

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"pando/internal/bench"
)

// nfsPort is the registered port of NFS.
const nfsPort = 2049

// nfsClients is the number of connections of a node, like the mount option nconnect.
const nfsClients = 4

// ganeshaConfig exports a directory as /root by NFS 4 only. Owners are numbers, because booting nodes know no names. An
// idle connection stays for an hour instead of 300 seconds: on slow links a node may be idle for longer, and libnfs
// does not reconnect.
const ganeshaConfig = `NFS_CORE_PARAM { NFS_Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; NFS_Port = %d; RPC_Idle_Timeout_S = 3600; }
NFSv4 { Graceless = true; RecoveryRoot = "%s"; Only_Numeric_Owners = true; }
LOG { Default_Log_Level = WARN; }
EXPORT { Export_Id = 1; Path = "%s"; Pseudo = /root; Access_Type = RO; Squash = No_root_squash; SecType = sys; Protocols = 4; Transports = TCP;
	FSAL { Name = VFS; } }
`

// serveNFS starts nfs-ganesha with the tree.
func serveNFS(ctx context.Context, h bench.Host, m *bench.Image) (bench.Served, error) {
	return serveNFSOf(ctx, h, func() (string, error) { return m.Tree(ctx) })
}

// serveNFSOf starts nfs-ganesha with a directory.
func serveNFSOf(ctx context.Context, h bench.Host, of func() (string, error)) (bench.Served, error) {
	export, err := of()
	if err != nil {
		return bench.Served{}, err
	}
	dir := filepath.Join(h.Dir, "ganesha")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return bench.Served{}, err
	}
	config := filepath.Join(dir, "ganesha.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, ganeshaConfig, nfsPort, dir, export), 0o644); err != nil {
		return bench.Served{}, err
	}
	c := h.Net.Command(
		context.Background(),
		"ganesha.nfsd",
		"-F",
		"-f",
		config,
		"-L",
		filepath.Join(dir, "log"),
		"-p",
		filepath.Join(dir, "pid"),
	)
	return h.Start(ctx, c, "ganesha", nfsPort)
}

// attachNFS attaches the root by clients that read files.
func attachNFS(ctx context.Context, n bench.Client) (bench.Root, error) {
	r := &nfsRoot{}
	for i := range nfsClients {
		c, err := startNFSClient(ctx, n, i)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.clients = append(r.clients, c)
	}
	var err error
	r.fileRoot, err = newFileRoot(ctx, n, r.readPart)
	return r, err
}

// nfsRoot is a root whose files are read over NFS.
type nfsRoot struct {
	*fileRoot
	clients []*nfsClient
}

// readPart reads a part of a file. A file is always read by the same client, which keeps it open.
func (r *nfsRoot) readPart(path string, p []byte, off int64) error {
	h := fnv.New32a()
	_, _ = io.WriteString(h, path) // writing to a hash never fails
	return r.clients[int(h.Sum32())%len(r.clients)].read(path, p, off)
}

func (r *nfsRoot) Usage(context.Context) (bench.Usage, error) {
	var all []*bench.Program
	for _, c := range r.clients {
		all = append(all, c.program)
	}
	return bench.UsageOf(all...)
}

// Close ends the clients.
func (r *nfsRoot) Close() {
	for _, c := range r.clients {
		c.close()
	}
	if r.fileRoot != nil {
		r.raw.Close()
	}
}

// nfsClient is one process of nfsread.
type nfsClient struct {
	program *bench.Program
	mu      sync.Mutex // one read at a time
	in      *os.File
	out     *os.File
	answers *bufio.Reader
}

func startNFSClient(ctx context.Context, n bench.Client, i int) (*nfsClient, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	k := &nfsClient{in: in, out: out, answers: bufio.NewReaderSize(out, 64<<10)}
	c := n.Net.Command(context.Background(), filepath.Join(n.Bin, "nfsread"), bench.Network.Addr().String(), "/root")
	c.Stdin, c.Stdout = theirIn, theirOut
	log := filepath.Join(n.Dir, "nfsread."+strconv.Itoa(i)+".log")
	k.program, err = bench.StartProgram(ctx, c, log, func() bool { return true })
	if err == nil {
		theirOut.Close() // so that the end of the other side is noticed
		stop := context.AfterFunc(ctx, func() { k.program.Stop() })
		defer stop()
		var line string
		if line, err = k.answers.ReadString('\n'); err != nil || line != "mounted\n" {
			err = fmt.Errorf("nfsread does not mount; its log is %s", log)
		}
	}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *nfsClient) read(path string, p []byte, off int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := fmt.Fprintf(k.in, "%d %d %s\n", off, len(p), path); err != nil {
		return err
	}
	line, err := k.answers.ReadString('\n')
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || n != len(p) {
		return fmt.Errorf("nfsread has %q bytes, want %d", strings.TrimSpace(line), len(p))
	}
	_, err = io.ReadFull(k.answers, p)
	return err
}

func (k *nfsClient) close() {
	k.in.Close()
	if k.program != nil {
		k.program.Stop()
	}
	k.out.Close()
}
