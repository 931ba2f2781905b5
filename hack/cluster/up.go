package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// startTimeout bounds each step of the start, and attemptTimeout each attempt to see its end; a machine that compiles at the same time can be slow.
	startTimeout, attemptTimeout = 5 * time.Minute, 6 * time.Second
	// stopGrace bounds the whole stop, which normally takes a second or two; brokenStopGrace is for a cluster
	// that has lost a component, in which others may wait in vain for the lost one.
	stopGrace       = 5 * time.Second
	brokenStopGrace = time.Second
	pollInterval    = 100 * time.Millisecond
)

type upOptions struct {
	name           string
	bare           bool
	nodes          int
	kubeconfig     string
	logDir         string
	apiserverFlags []string
}

// cluster is a cluster that is starting or running.
type cluster struct {
	upOptions
	state      *state
	supervisor *supervisor
	log        func(format string, args ...any)
}

var errInterrupted = errors.New("stopped before it was ready")

// up runs a cluster until ctx ends or a component does. It leaves nothing behind, on disk or running.
func up(ctx context.Context, o upOptions, stdout, stderr io.Writer) (err error) {
	log := func(format string, args ...any) {
		fmt.Fprintf(stderr, "cluster %s: %s\n", o.name, fmt.Sprintf(format, args...))
	}
	s, err := newState(o.name)
	if err != nil {
		return err
	}
	if err := s.checkSocketPath(); err != nil {
		return err
	}
	stale, err := s.claim()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.release()) }()
	if stale {
		log("removed the remains of one that had been killed")
	}
	if o.logDir == "" {
		o.logDir = s.path("logs")
	}
	supervisor, err := newSupervisor(s.dir, o.logDir)
	if err != nil {
		return err
	}
	c := &cluster{upOptions: o, state: s, supervisor: supervisor, log: log}
	defer c.stop()
	return c.run(ctx, stdout)
}

// run brings the cluster up and waits for its end. The error is nil if it had been ready and was told to stop.
func (c *cluster) run(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case lost := <-c.supervisor.lost:
			cancel(newLostError(lost))
		case <-ctx.Done():
		}
	}()
	// What a component's loss or a signal makes fail is no news.
	ended := func(otherwise error) error {
		if lost := (*lostError)(nil); errors.As(context.Cause(ctx), &lost) {
			return lost
		}
		return otherwise
	}

	began := time.Now()
	kubeconfig, err := c.bringUp(ctx)
	if ctx.Err() != nil {
		return ended(errInterrupted)
	}
	if err != nil {
		return err
	}
	c.log("ready after %.1fs; logs in %s", time.Since(began).Seconds(), c.logDir)
	fmt.Fprintln(stdout, "ready", kubeconfig)
	<-ctx.Done()
	return ended(nil)
}

func (c *cluster) stop() {
	began := time.Now()
	c.log("stopping")
	grace := stopGrace
	if !c.supervisor.complete() {
		grace = brokenStopGrace
	}
	c.supervisor.stop(grace)
	c.log("stopped after %.1fs", time.Since(began).Seconds())
}

// bringUp starts everything and returns, when all is ready, the path of the admin's kubeconfig.
func (c *cluster) bringUp(ctx context.Context) (string, error) {
	if c.kubeconfig != "" {
		if err := checkExport(c.kubeconfig); err != nil {
			return "", err
		}
	}
	client, err := c.startAPI(ctx)
	if err != nil {
		return "", err
	}
	if !c.bare {
		if err := c.startControllers(ctx, client); err != nil {
			return "", err
		}
	}
	if c.kubeconfig == "" {
		return c.state.path(adminKubeconfig), nil
	}
	return exportKubeconfig(c.state, c.kubeconfig)
}

// startAPI starts etcd and the API server, and returns when that serves, with an administrator's client.
func (c *cluster) startAPI(ctx context.Context) (kubernetes.Interface, error) {
	identities, err := writePKI(c.state.path("pki"))
	if err != nil {
		return nil, err
	}
	port, err := reservePort()
	if err != nil {
		return nil, err
	}
	defer port.release() // by then the API server has it
	if err := writeKubeconfigs(c.state, port.number, identities); err != nil {
		return nil, err
	}
	client, err := adminClient(c.state)
	if err != nil {
		return nil, err
	}
	// At the same time: the API server has much to do before it looks for etcd, and then waits for it.
	if _, err := c.supervisor.start(etcdName, etcdArgs(c.state)...); err != nil {
		return nil, err
	}
	apiserver, err := c.supervisor.start(apiserverName, apiserverArgs(c.state, port.number, c.bare, c.apiserverFlags)...)
	if err != nil {
		return nil, err
	}
	c.log("starting the API server on port %d", port.number)
	return client, waitUntil(ctx, apiserver, "the API server is not ready", func(ctx context.Context) error {
		if err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err
		}
		// Made after the server calls itself ready, and everybody's first request needs it.
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
}

// startControllers starts the rest of the control plane and the simulated nodes, and returns when pods can run.
func (c *cluster) startControllers(ctx context.Context, client kubernetes.Interface) error {
	c.log("starting the controllers and %d nodes", c.nodes)
	controllerManager, err := c.supervisor.start(controllerManagerName, controllerManagerArgs(c.state)...)
	if err != nil {
		return err
	}
	if _, err := c.supervisor.start(schedulerName, schedulerArgs(c.state)...); err != nil {
		return err
	}
	if err := createSimulated(ctx, client, c.nodes); err != nil {
		return err
	}
	if err := writeStages(c.state.path(stagesFile)); err != nil {
		return err
	}
	kwok, err := c.supervisor.start(kwokName, kwokArgs(c.state)...)
	if err != nil {
		return err
	}
	err = waitUntil(ctx, controllerManager, "there is no default service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return waitUntil(ctx, kwok, "the nodes are not ready", func(ctx context.Context) error {
		return nodesReady(ctx, client, c.nodes)
	})
}

// waitUntil polls until ready returns nil. If that takes too long, the error starts with complaint and ends
// with the log of the process that should have made it so.
func waitUntil(ctx context.Context, p *process, complaint string, ready func(context.Context) error) error {
	deadline := time.Now().Add(startTimeout)
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s after %s: %w%s", complaint, startTimeout, err, p.logTail())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}
