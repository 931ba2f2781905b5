package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"huolala.cn/app-operator/api/client/clientset/versioned"
	"huolala.cn/app-operator/internal/answers"
	"huolala.cn/app-operator/plugin/view"
)

// namespaceOfTests is the namespace of the objects of a fakeServer.
const namespaceOfTests = "shop"

// fakeServer answers as an API server that has some objects of the namespace shop. It answers a write with the object as it is, and notes it.
type fakeServer struct {
	// objects are by resource and name, such as "apps/web"; of lists, all others are empty.
	objects map[string]runtime.Object
	// answer answers a request in place of the server, if it returns a status.
	answer func(q *http.Request, body string) runtime.Object
	// upgrade answers a request for another protocol.
	upgrade func(w http.ResponseWriter, q *http.Request)
	// logs are the logs of pods, by the name of the pod; with " before" after it, of the run before.
	logs map[string]string
	// follow is true if the logs that are followed do not end.
	follow bool
	url    string
	mu     sync.Mutex
	writes []string
}

// newFakeServer starts an API server that ends with the test.
func newFakeServer(t *testing.T, objects map[string]runtime.Object) *fakeServer {
	t.Helper()
	f := &fakeServer{objects: objects}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// ServeHTTP implements http.Handler.
func (f *fakeServer) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	data, _ := io.ReadAll(q.Body)
	f.mu.Lock()
	if q.Method != http.MethodGet && q.URL.Query().Get("dryRun") == "" {
		f.writes = append(f.writes, q.Method+" "+q.URL.Path+" "+string(data))
	}
	f.mu.Unlock()
	if f.upgrade != nil && q.Header.Get("Upgrade") != "" {
		f.upgrade(w, q)
		return
	}
	var answer runtime.Object
	if f.answer != nil {
		answer = f.answer(q, string(data))
	}
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	at := slices.Index(parts, "namespaces")
	switch {
	case answer != nil:
	case f.logs != nil && len(parts) == at+5 && parts[at+4] == "log":
		_, _ = io.WriteString(w, partOfLog(f.logs[parts[at+3]+map[string]string{"true": " before"}[q.URL.Query().Get("previous")]], q.URL.Query()))
		if f.follow && q.URL.Query().Get("follow") == "true" {
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
		}
		return
	case at < 0 || len(parts) < at+3:
		answer = status(apierrors.NewNotFound(schema.GroupResource{}, q.URL.Path))
	case len(parts) == at+3:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(emptyList(parts[at+2]))
		return
	default:
		if answer = f.objects[strings.Join(parts[at+2:at+4], "/")]; answer == nil {
			answer = status(apierrors.NewNotFound(schema.GroupResource{Resource: parts[at+2]}, parts[at+3]))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if failed, ok := answer.(*metav1.Status); ok {
		w.WriteHeader(int(failed.Code))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// partOfLog returns the part of a log that a request asks for, as the kubelet does: of the last lines, the first bytes.
func partOfLog(text string, query url.Values) string {
	if tail, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		lines := slices.Collect(strings.Lines(text))
		text = strings.Join(lines[max(0, len(lines)-tail):], "")
	}
	if limit, err := strconv.Atoi(query.Get("limitBytes")); err == nil {
		text = text[:min(limit, len(text))]
	}
	return text
}

// emptyList is the answer to the list of a resource; an untyped one needs a kind.
func emptyList(resource string) []byte {
	for i := range view.AroundTypes {
		if around := &view.AroundTypes[i]; around.Resource.Resource == resource {
			gv := around.Resource.GroupVersion().String()
			return []byte(`{"apiVersion":"` + gv + `","kind":"` + around.Kind + `List","metadata":{},"items":[]}`)
		}
	}
	return []byte(`{"metadata":{},"items":[]}`)
}

// status returns an error as the API server sends it.
func status(err *apierrors.StatusError) *metav1.Status {
	answer := err.ErrStatus
	answer.APIVersion, answer.Kind = "v1", "Status"
	return &answer
}

// clients returns the clients of a user of the server.
func (f *fakeServer) clients(t *testing.T) *clients {
	t.Helper()
	config := &rest.Config{Host: f.url, QPS: -1}
	config.Wrap(answers.New().Wrap)
	other, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	app, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &clients{app: app, kube: kube, dynamic: other, namespace: namespaceOfTests}
}

// run runs the plug-in with the server.
func (f *fakeServer) run(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), f.program(t, &stdout, &stderr, args...))
	return code, stdout.String(), stderr.String()
}

// program returns the plug-in with the server, and with no other kubeconfig.
func (f *fakeServer) program(t *testing.T, out, said io.Writer, args ...string) Program {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Program{
		Path: "/usr/local/bin/kubectl-happ", Version: "v9", In: strings.NewReader(""), Out: out, Err: said, Getenv: func(string) string { return "" },
		Args: append([]string{"--kubeconfig", config, "--server", f.url, "--namespace", namespaceOfTests}, args...),
	}
}

// objectMeta returns the metadata of an object of the tests.
func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespaceOfTests, Name: name, UID: "1", ResourceVersion: "7", Generation: 2}
}
