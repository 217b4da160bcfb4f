// A device plugin on grpc-go, with the faults that Go plugins have: plugin good|ignores-restart|leaks-servers|dies-on-unknown-id
//
// It is built with Debian's packages alone, without modules: see go_plugins.py.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

const (
	resource  = "zoo.example/animal"
	directory = "/var/lib/kubelet/device-plugins"
	period    = 200 * time.Millisecond // between two looks at the sockets
)

type plugin struct {
	fault     string
	directory string
	devices   map[string]*device
	socket    string
	served    uint64 // the identity of the socket
	server    *grpc.Server
	unwatched chan struct{} // the kubelet has hung up
	stopping  chan struct{}
}

type device struct{ env string }

func (p *plugin) options(context.Context, message) (message, error) { return message{}, nil }

func (p *plugin) allocate(_ context.Context, request message) (message, error) {
	containers, err := containerRequests(request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	response := message{}
	for _, ids := range containers {
		values := make([]string, 0, len(ids))
		for _, id := range ids {
			found := p.devices[id]
			if found == nil && p.fault != "dies-on-unknown-id" {
				return nil, status.Errorf(codes.NotFound, "unknown device %q", id)
			}
			values = append(values, found.env)
		}
		response = response.inner(1, containerResponse("ANIMALS", strings.Join(values, ",")))
	}
	return response, nil
}

func (p *plugin) listAndWatch(stream grpc.ServerStream) error {
	if err := stream.SendMsg(deviceList([]string{"ant", "bee", "cat"})); err != nil {
		return err
	}
	select {
	case <-p.stopping:
		return nil
	case <-stream.Context().Done():
	}
	select {
	case p.unwatched <- struct{}{}:
	default:
	}
	return nil
}

// serve makes a server on a socket of a new name, which no other instance has.
func (p *plugin) serve() error {
	p.socket = fmt.Sprintf("animal-%d-%d.sock", os.Getpid(), time.Now().UnixNano())
	listener, err := net.Listen("unix", filepath.Join(p.directory, p.socket))
	if err != nil {
		return err
	}
	p.server = grpc.NewServer()
	p.server.RegisterService(&devicePlugin, p)
	p.served = identity(listener.Addr().String())
	go p.server.Serve(listener)
	return nil
}

func (p *plugin) isServing() bool {
	return p.served != 0 && identity(filepath.Join(p.directory, p.socket)) == p.served
}

// register gives up when the kubelet, as it starts, removes the socket that it would have to dial.
func (p *plugin) register() error {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second) // a kubelet dials us for 10 s
	defer cancel()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(period) {
			if !p.isServing() {
				cancel()
			}
		}
	}()
	connection, err := grpc.DialContext(ctx, "unix://"+filepath.Join(p.directory, "kubelet.sock"), grpc.WithInsecure())
	if err != nil {
		return err
	}
	defer connection.Close()
	var reply message
	return connection.Invoke(ctx, "/v1beta1.Registration/Register", registerRequest(p.socket, resource), &reply)
}

// identity tells one incarnation of a socket from the next; 0 while there is none.
func identity(path string) uint64 {
	var found syscall.Stat_t
	if syscall.Stat(path, &found) != nil {
		return 0
	}
	return found.Ino ^ uint64(found.Ctim.Nano())
}

func (p *plugin) run(ended <-chan os.Signal) {
	kubelet := filepath.Join(p.directory, "kubelet.sock")
	var registered uint64
	isDue := false
	for ticks := time.NewTicker(period); ; {
		now := identity(kubelet)
		restarted := now != 0 && now != registered
		if restarted && p.fault == "leaks-servers" {
			p.served = 0 // and the server before goes on
		}
		if !p.isServing() {
			if p.server != nil && p.fault != "leaks-servers" {
				p.server.Stop()
			}
			isDue = p.serve() == nil
		}
		if now != 0 && p.isServing() && (isDue || restarted) {
			if err := p.register(); err != nil {
				log.Printf("registration failed and is tried again: %v", err)
			} else {
				log.Printf("registered as %s", p.socket)
				registered, isDue = now, false
			}
		}
		if p.fault == "ignores-restart" && registered != 0 {
			<-ended
			return
		}
		select {
		case <-ended:
			return
		case <-p.unwatched:
			isDue = true
		case <-ticks.C:
		}
	}
}

func main() {
	encoding.RegisterCodec(codec{})
	p := &plugin{
		fault:     os.Args[1],
		directory: directory,
		devices:   map[string]*device{"ant": {"ant"}, "bee": {"bee"}, "cat": {"cat"}},
		unwatched: make(chan struct{}, 1),
		stopping:  make(chan struct{}),
	}
	if len(os.Args) > 2 {
		p.directory = os.Args[2]
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	p.run(ended)
	close(p.stopping)
	if p.server != nil {
		p.server.Stop()
	}
}
