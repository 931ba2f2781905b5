// Package webhooks has the admission webhooks of our kinds, one thin file per kind. The rules are in api/v1/validation and in the builders
// of resource. The controllers use the same rules, so an error has the same text at admission and, for a resource that was admitted while
// no webhook ran, in the status.
package webhooks

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	goruntime "runtime"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/policy"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"huolala.cn/app-operator/internal/certificate"
	"huolala.cn/app-operator/resource"
)

// The names in config/default.
const (
	serviceName    = "app-operator-webhook-service"
	secretName     = "app-operator-webhook-cert"
	validatingName = "app-operator-validating-webhook-configuration"
	mutatingName   = "app-operator-mutating-webhook-configuration"
)

// defaultPatience is for the two seconds that the API server waits for the whole answer.
const defaultPatience = 1200 * time.Millisecond

// Options configure the webhooks.
type Options struct {
	// Host and Port are where to listen. Defaults: all addresses, 9443.
	Host string
	Port int
	// CertDir is the folder with tls.crt and tls.key, renewed by another component. Empty: the manager makes them itself.
	CertDir string
	// OwnNamespace is the manager's, which has the Service and the Secret of the certificate; empty if it is not known.
	OwnNamespace string
	// Certificate has the validity of the certificate that the manager makes, and Hosts in addition to the names of the Service.
	Certificate certificate.Options
	// Rendering is the newest rendering that a pod template is built with.
	Rendering int32
	// FollowSecrets is true where the manager follows the content of Secrets.
	FollowSecrets bool
	// DisabledFeatures are the fields of the spec around the pods that are refused.
	DisabledFeatures []string
	// Patience is the total time for reads of other objects; an object that is not read in this time causes no warning. Default: 1.2 s.
	Patience time.Duration
	// Arrival is how long a review may take to arrive, and then to be handled. Default: the times of guard.Webhooks, which fit the two
	// seconds that the API server waits.
	Arrival time.Duration
	// Drain is for how long the webhooks answer on while the manager ends. Default: 1 s.
	Drain time.Duration
}

// BindFlags adds the command line's part of the options.
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.IntVar(&o.Port, "webhook-port", webhook.DefaultPort, "Port to serve webhooks on, if the environment variable ENABLE_WEBHOOKS is true.")
	fs.StringVar(&o.CertDir, "webhook-cert-dir", "", "Directory with tls.crt and tls.key of the webhooks, renewed by another component such as cert-manager or OLM. "+
		"Default: the manager creates and renews them in the Secret "+secretName+" of POD_NAMESPACE.")
}

// Webhooks are the webhooks of all kinds. Make them with New.
type Webhooks struct {
	opts    Options
	enabled bool
	// keeper keeps the certificate, nil where another component does.
	keeper *certificate.Keeper
}

// New returns webhooks, whose Server is to be the manager's. setting is ENABLE_WEBHOOKS: they are served if it is true, and
// not if it is empty. True without a way to a certificate is an error, and so is anything but a boolean.
func New(opts Options, setting string) (*Webhooks, error) {
	if opts.Patience == 0 {
		opts.Patience = defaultPatience
	}
	opts.Drain = cmp.Or(opts.Drain, defaultDrain)
	w := &Webhooks{opts: opts}
	if setting != "" {
		var err error
		if w.enabled, err = strconv.ParseBool(setting); err != nil {
			return nil, fmt.Errorf("ENABLE_WEBHOOKS must be true or false, not %q", setting)
		}
	}
	switch {
	case w.enabled && opts.CertDir == "" && opts.OwnNamespace == "":
		return nil, errors.New(messageNoCertificate)
	case w.enabled && opts.CertDir == "":
		made := opts.Certificate
		made.Secret = types.NamespacedName{Namespace: opts.OwnNamespace, Name: secretName}
		made.Hosts = append([]string{fmt.Sprintf("%s.%s.svc", serviceName, opts.OwnNamespace)}, made.Hosts...)
		made.Validating, made.Mutating = validatingName, mutatingName
		w.keeper = certificate.New(made)
	}
	return w, nil
}

// Server returns the server for the manager's options.
func (w *Webhooks) Server() webhook.Server {
	server := newGuardedServer(&w.opts)
	if w.keeper != nil {
		server.certificate = w.keeper.GetCertificate
	}
	return &drainingServer{period: w.opts.Drain, Server: server}
}

// SetupWithManager adds the webhooks of all kinds to the manager, and a readiness check: every replica serves. It does nothing if the
// webhooks are disabled. With a planner, dry runs are answered with the plan of the change.
func (w *Webhooks) SetupWithManager(mgr ctrl.Manager, planner Planner) error {
	if !w.enabled {
		ctrl.Log.Info(messageDisabled)
		return nil
	}
	served := mgr.GetWebhookServer().StartedChecker()
	if w.keeper != nil {
		served = w.keeper.Ready
		if err := w.keeper.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	standards, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return fmt.Errorf("pod security standards: %w", err)
	}
	s := validators{
		patience: w.opts.Patience, followSecrets: w.opts.FollowSecrets, disabled: w.opts.DisabledFeatures,
		cache: mgr.GetCache(), live: mgr.GetAPIReader(), scheme: mgr.GetScheme(), standards: standards,
		planner: planner, limits: newLimits(goruntime.GOMAXPROCS(0)), ownNamespace: w.opts.OwnNamespace,
		today: resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: w.opts.Rendering}, Unrecorded: true},
	}
	s.registerKinds(mgr.GetWebhookServer())
	expiry.webhooks.Store(w)
	return mgr.AddReadyzCheck("webhooks", served)
}

// registerKinds has the server answer for all kinds in resource.Kinds, and for AppDefaults.
func (s *validators) registerKinds(server webhook.Server) {
	s.setUpApp(server)
	s.setUpModelBox(server)
	s.setUpUnitedDeployment(server)
	s.setUpCloudManager(server)
	s.setUpTask(server)
	s.setUpAppDefaults(server)
}

// validators has the dependencies of the webhooks of all kinds.
type validators struct {
	// cache has the objects that the controllers watch; live reads all others from the API server.
	cache, live client.Reader
	patience    time.Duration
	// ownNamespace is the namespace of the operator, empty if it is not known.
	ownNamespace string
	// followSecrets is true where the controllers follow the content of Secrets.
	followSecrets bool
	// disabled are the fields of the spec around the pods that are refused.
	disabled  []string
	scheme    *runtime.Scheme
	standards policy.Evaluator
	// planner plans changes.
	planner Planner
	// limits are the limits of the process, which all kinds share.
	limits *limits
	// today has the build options for a new workload.
	today resource.BuildOptions
}
