package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/resource"
)

// runOptions are the flags of run.
type runOptions struct {
	part                          string
	stdin, tty, detach            bool
	ttl, deadline, timeout, grace time.Duration
}

const (
	// maxRun is the longest --ttl and --deadline.
	maxRun = 365 * 24 * time.Hour
	// followedTTL is the TTL of a Job that is followed with --ttl 0: so long, the exit code can be read. The plug-in deletes the Job before.
	followedTTL = time.Minute
)

func (r *root) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run NAME -- COMMAND [ARGUMENT...]", Short: "Run a command in a pod like the latest pods", Args: takesArguments(2, -1),
		Long: "Run a command once, in a Job whose pod has the image, the variables, the volumes and the account of the pods that are in force.\n" +
			"No Service leads to this pod. Print what the command writes, and end with its exit code. Ctrl-C deletes the Job. What this\n" +
			"program itself has to say goes to the standard error, and its own errors have the exit status 1.",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return r.completeNames(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.onTarget(func(ctx context.Context, c *clients, t target) error { return r.runInPod(ctx, c, t, &o, args[1:]) })(cmd, args)
		},
	}
	partFlag(cmd, &o.part)
	cmd.Flags().BoolVarP(&o.stdin, "stdin", "i", false, "Pass the standard input on to the command.")
	cmd.Flags().BoolVarP(&o.tty, "tty", "t", false, "Give the command a terminal; with --stdin.")
	cmd.Flags().BoolVar(&o.detach, "detach", false, "Start the command, and do not wait for it.")
	cmd.Flags().DurationVar(&o.ttl, "ttl", time.Hour, "How long the Job stays once the command has ended; 0 deletes it at once.")
	cmd.Flags().DurationVar(&o.deadline, "deadline", 0, "When to end the command; 0 for never.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "When to give up, and delete the Job, if the command does not start.")
	cmd.Flags().DurationVar(&o.grace, "grace", 30*time.Second, "How long the pod may have a cause, such as an image that cannot be pulled, before that counts as failed.")
	atLeastZero(cmd, "ttl", "deadline", "timeout", "grace")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return o.checkArguments(cmd) }
	return cmd
}

func (o *runOptions) checkArguments(cmd *cobra.Command) error {
	switch {
	case cmd.ArgsLenAtDash() != 1:
		return fmt.Errorf("write \"--\" between the name and the command: \"%s\"", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	case o.tty && !o.stdin:
		return errors.New("--tty needs --stdin: write -it")
	case o.stdin && o.detach:
		return errors.New("--detach does not go with --stdin: nobody would pass the input on")
	case o.ttl > maxRun:
		return fmt.Errorf("--ttl: %s is more than %s", o.ttl, maxRun)
	case o.deadline > maxRun:
		return fmt.Errorf("--deadline: %s is more than %s", o.deadline, maxRun)
	}
	return nil
}

// runInPod runs a command in a pod like those of a resource.
func (r *root) runInPod(ctx context.Context, c *clients, t target, o *runOptions, command []string) error {
	if err := refuseTask(t, messageNoRun, t.runByHand()); err != nil {
		return err
	}
	now, err := c.clientOf(t.kind, t.namespace).getResource(ctx, t.name)
	if err != nil {
		return inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	if err := checkNotDeleting(&now); err != nil {
		return err
	}
	d, err := c.runnableDeployment(ctx, t, &now, view.Part(o.part))
	if err != nil {
		return err
	}
	// A Service could find the pod by the labels that the spec has.
	var services []corev1.Service
	err = eachOf(ctx, c.kube.CoreV1().Services(t.namespace), c.chunk, metav1.ListOptions{}, func(obj runtime.Object) {
		if service, ok := obj.(*corev1.Service); ok {
			services = append(services, *service)
		}
	})
	if err != nil {
		return inWords(err, "list", "Services", t.namespace)
	}
	f := &runFollower{root: r, c: c, o: o, tty: o.tty && isTerminal(r.In)}
	f.job = resource.RunJob(d, services, &resource.Run{
		For: t.name, Name: resource.RunName(t.name, rand.String(5)), Command: command, Stdin: o.stdin, TTY: f.tty,
		Deadline: wholeSeconds(o.deadline), TTL: int32(wholeSeconds(o.jobTTL())),
	})
	if o.tty && !f.tty {
		fmt.Fprintln(r.Err, "The standard input is no terminal, so the command has none.")
	}
	return f.untilPipeBreaks(ctx)
}

// jobTTL returns how long the Job stays once it has ended, unless the plug-in deletes it before.
func (o *runOptions) jobTTL() time.Duration {
	if o.ttl == 0 && !o.detach {
		return followedTTL
	}
	return o.ttl
}

// wholeSeconds returns a duration in whole seconds, rounded up.
func wholeSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// runnableDeployment returns the Deployment in whose pods a command of a resource runs.
func (c *clients) runnableDeployment(ctx context.Context, t target, now *view.Resource, part view.Part) (*appsv1.Deployment, error) {
	w, err := now.RunnableWorkload(part)
	if err != nil {
		return nil, err
	}
	d, err := c.kube.AppsV1().Deployments(t.namespace).Get(ctx, w.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s has no Deployment %s yet, so there is no pod to run the command like; see \"%s\"", now.ObjectName(), w.Name, t.commandLine("why"))
	}
	if err != nil {
		return nil, inWords(err, "get", "Deployment "+w.Name, t.namespace)
	}
	if owner := metav1.GetControllerOf(d); !w.Foreign && (owner == nil || owner.UID != now.ObjectMeta.UID) {
		return nil, fmt.Errorf("no command runs like the pods of Deployment %s/%s: it is not controlled by %s", d.Namespace, d.Name, now.ObjectName())
	}
	return d, nil
}
