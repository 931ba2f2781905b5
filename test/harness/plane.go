// Package harness runs the manager against a real Kubernetes API server for the tests.
//
// The manager acts as its own ServiceAccount with exactly the role that is generated from the code's markers, so that a
// missing permission fails a test. Each test has a namespace of its own. It has a manager of its own, which watches that
// namespace alone, if it stops it or changes how it runs, and shares one with other tests otherwise. Every request is recorded.
package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
)

// The manager's identity in config/default.
const (
	SystemNamespace = "app-operator-system"
	ServiceAccount  = "app-operator-controller-manager"
	// ManagerUser is the manager's user name.
	ManagerUser = "system:serviceaccount:" + SystemNamespace + ":" + ServiceAccount
)

// Plane is a running Kubernetes control plane with our kinds and the manager's role installed.
type Plane struct {
	// Config is the administrator's.
	Config *rest.Config
	// Client is the administrator's, without a cache.
	Client client.Client
	usage  *usage
	stop   func() error
	shared sharedManager
	// collects is true where Kubernetes' controllers run, which delete what has lost its owner.
	collects bool
}

// Stop ends the control plane, and the shared manager before it.
func (p *Plane) Stop() error {
	var err error
	if p.shared.stop != nil {
		err = p.shared.stop()
	}
	return errors.Join(err, p.stop())
}

// StartAPIServer starts etcd and kube-apiserver from the folder that KUBEBUILDER_ASSETS names. No controller runs in it: what
// becomes of an object is what the manager does.
func StartAPIServer() (*Plane, error) { return startBare(newBare()) }

// StartRestartable is StartAPIServer, and both of its servers can be stopped and started again. Their data and certificates are in folder.
func StartRestartable(folder string) (plane *Plane, apiServer, etcd Server, err error) {
	env := newBare()
	env.ControlPlaneStopTimeout = 5 * time.Second
	env.ControlPlane.GetAPIServer().CertDir = filepath.Join(folder, "apiserver")
	env.ControlPlane.GetAPIServer().Configure().Set("shutdown-watch-termination-grace-period", "1s") // Else it waits for ever.
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: filepath.Join(folder, "etcd")}
	for _, path := range []string{env.ControlPlane.GetAPIServer().CertDir, env.ControlPlane.Etcd.DataDir} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, nil, nil, err
		}
	}
	apiServer, etcd = mortal{env.ControlPlane.GetAPIServer()}, mortal{env.ControlPlane.Etcd}
	if plane, err = startBare(env); err != nil {
		return nil, nil, nil, err
	}
	plane.stop = func() error { return errors.Join(apiServer.Stop(), etcd.Stop()) }
	return plane, apiServer, etcd, nil
}

// Server is a process of a control plane.
type Server interface {
	// Start waits until it serves.
	Start() error
	// Stop asks it to end, and kills it if it does not.
	Stop() error
}

// mortal is a server that may have to be killed without an error: an API server waits for etcd, and for its clients.
type mortal struct{ Server }

func (m mortal) Stop() error {
	err := m.Server.Stop()
	if err != nil && strings.HasPrefix(err.Error(), "timeout waiting for process") {
		return nil
	}
	return err
}

// newBare returns the environment of a control plane of the tests' own, also where USE_EXISTING_CLUSTER asks envtest for the cluster of the user.
func newBare() *envtest.Environment {
	env := &envtest.Environment{
		UseExistingCluster: ptr.To(false), ControlPlaneStartTimeout: Patience, ControlPlaneStopTimeout: Patience,
	}
	env.ControlPlane.GetAPIServer().Configure().
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		// The default has room for 254 Services, and no controller here deletes those of a namespace that is gone.
		Set("service-cluster-ip-range", "10.0.0.0/16").
		Append("max-requests-inflight", "2000").
		Append("max-mutating-requests-inflight", "1000")
	return env
}

func startBare(env *envtest.Environment) (*Plane, error) {
	if _, err := lifeline(); err != nil {
		return nil, err
	}
	cfg, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("start etcd and kube-apiserver (make test sets KUBEBUILDER_ASSETS): %w", err)
	}
	return newPlane(cfg, env.Stop)
}

// StartCluster starts a whole control plane with simulated nodes by the program that CLUSTER_BINARY names.
func StartCluster(name string, nodes int) (*Plane, error) {
	program := os.Getenv("CLUSTER_BINARY")
	if program == "" {
		return nil, errors.New("CLUSTER_BINARY does not name the cluster program; make test sets it")
	}
	cmd := exec.Command(program, "up", "--until-eof", "--name", fmt.Sprintf("%s-%d", name, os.Getpid()), "--nodes", fmt.Sprint(nodes))
	cmd.Stderr, cmd.Env = os.Stderr, clusterEnvironment()
	if _, err := cmd.StdinPipe(); err != nil { // A test that panics closes it.
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	stop := func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		return cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	path, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		return nil, errors.Join(fmt.Errorf("%s did not become ready: %q", program, line), err, stop())
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	p, err := newPlane(cfg, stop)
	if err == nil {
		p.collects = true
	}
	return p, err
}

// maxTempDir is the longest path of the folder for temporary files that has room for the sockets of a cluster.
const maxTempDir = 30

// clusterEnvironment returns the environment of the cluster program, which keeps the data of etcd in the folder for temporary files. With XDG_RUNTIME_DIR it
// would keep them in memory: systemd gives that folder a tenth of it, which suites side by side can fill. A long path has no room for the program's sockets.
func clusterEnvironment() []string {
	if len(os.TempDir()) > maxTempDir {
		return os.Environ()
	}
	return append(os.Environ(), "XDG_RUNTIME_DIR=")
}

func newPlane(cfg *rest.Config, stop func() error) (*Plane, error) {
	cfg.QPS = -1
	c, err := client.New(cfg, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	used, err := newUsage()
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	p := &Plane{Config: cfg, Client: c, usage: used, stop: stop}
	if err := p.install(context.Background()); err != nil {
		return nil, errors.Join(err, stop())
	}
	return p, nil
}

// Scheme knows our kinds, Kubernetes' and CustomResourceDefinitions.
func Scheme() *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{
		clientgoscheme.AddToScheme, appv1.AddToScheme, apiextensionsv1.AddToScheme, children.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // The types cannot be registered: a mistake in the program.
		}
	}
	return scheme
}

// roles are all that config has for the manager.
type roles struct {
	// works, reads, trusts and certifies are generated from the code's markers, asks is for who scrapes the metrics.
	works, asks, trusts      *rbacv1.ClusterRole
	reads, elects, certifies *rbacv1.Role
}

func managerRoles() (*roles, error) {
	r := &roles{
		&rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}, &rbacv1.Role{}, &rbacv1.Role{}, &rbacv1.Role{},
	}
	return r, errors.Join(Load("config/rbac/role.yaml", r.works, r.reads), Load("config/rbac/metrics_auth_role.yaml", r.asks),
		Load("config/rbac/leader_election_role.yaml", r.elects), Load("config/webhook/role.yaml", r.trusts, r.certifies))
}

// install makes what config/default makes, but for the manager's own Deployment.
func (p *Plane) install(ctx context.Context) error {
	if _, err := envtest.InstallCRDs(p.Config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(Root(), "config/crd/bases")}, ErrorIfPathMissing: true, MaxTime: Patience,
	}); err != nil {
		return fmt.Errorf("install the CRDs: %w", err)
	}
	r, err := managerRoles()
	if err != nil {
		return err
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}}
	manager := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: SystemNamespace, Name: ServiceAccount}}
	for _, role := range []*rbacv1.ClusterRole{r.works, r.asks, r.trusts} {
		objects = append(objects, role, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   manager,
		})
	}
	for _, role := range []*rbacv1.Role{r.reads, r.elects, r.certifies} {
		role.Namespace = SystemNamespace
		objects = append(objects, role, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   manager,
		})
	}
	for _, obj := range objects {
		if err := p.Client.Create(ctx, obj); err != nil {
			return fmt.Errorf("install the manager's roles: %w", err)
		}
	}
	return nil
}

// Load reads the objects of a file of the repository, each of its documents into one.
func Load(path string, objects ...client.Object) error {
	data, err := os.ReadFile(filepath.Join(Root(), path))
	if err != nil {
		return err
	}
	documents, err := splitDocuments(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(documents) != len(objects) {
		return fmt.Errorf("%s has %d documents, want %d", path, len(documents), len(objects))
	}
	for i, obj := range objects {
		if err := yaml.UnmarshalStrict(documents[i], obj); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if kind := reflect.TypeOf(obj).Elem().Name(); obj.GetObjectKind().GroupVersionKind().Kind != kind {
			return fmt.Errorf("%s: document %d is no %s", path, i+1, kind)
		}
	}
	return nil
}

// splitDocuments returns the documents of a YAML stream, without empty ones.
func splitDocuments(data []byte) (documents [][]byte, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, err
		case len(bytes.TrimSpace(document)) > 0:
			documents = append(documents, document)
		}
	}
}

// Root is the repository's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Namespace makes a namespace for the test, and deletes it when the test ends.
func (p *Plane) Namespace(t testing.TB) string {
	t.Helper()
	return p.namespace(t, "test-")
}

func (p *Plane) namespace(t testing.TB, prefix string) string {
	t.Helper()
	if err := readInputsOfPlane(); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := p.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := p.discard(ctx, ns); err != nil {
			t.Logf("clean up namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// discard removes what a test leaves in its namespace. Where controllers run, it removes what has pods, and nothing else: to delete a
// namespace takes a hundred requests, a quarter of all that a suite sends.
func (p *Plane) discard(ctx context.Context, ns *corev1.Namespace) error {
	if !p.collects {
		return p.Client.Delete(ctx, ns)
	}
	var errs []error
	left := []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.ReplicaSet{}, &corev1.Pod{}}
	for i := range resource.Kinds {
		left = slices.Insert(left, i, client.Object(resource.Kinds[i].New()))
	}
	for _, obj := range left {
		errs = append(errs, p.Client.DeleteAllOf(ctx, obj, client.InNamespace(ns.Name), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	return errors.Join(errs...)
}

// DeleteAfter deletes an object when the test ends; the object may be gone by then.
func (p *Plane) DeleteAfter(t testing.TB, obj client.Object) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(p.Client.Delete(ctx, obj)); err != nil {
			t.Errorf("delete %T %s: %v", obj, obj.GetName(), err)
		}
	})
}

// cleanupContext is for what is deleted after a test, whose own context has ended.
func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Patience)
}
