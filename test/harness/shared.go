package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/controllers"
	"huolala.cn/app-operator/test/fixture"
)

// sharedPrefix begins the names of the namespaces that the shared manager works in.
const sharedPrefix = "shared-"

// sharedWorkers is how many resources of a kind the shared manager works on at once: some of each test that runs.
const sharedWorkers = 24

// sharedManager is the manager that the tests share which need none of their own.
type sharedManager struct {
	once sync.Once
	// requests are those of the manager, told apart by namespace.
	requests *Requests
	manager  *controllers.Manager
	stop     func() error
	err      error
}

// Shared returns a namespace for the test, and a manager that works in it before anything is created there. All such tests share the
// manager: its Requests are those in the namespace, it cannot be stopped, and it has no options. It needs a tenth of
// the time that a manager of the test's own takes to start.
func (p *Plane) Shared(t testing.TB) (namespace string, m *Manager) {
	t.Helper()
	p.shared.once.Do(func() { p.shared.err = p.startShared() })
	if p.shared.err != nil {
		t.Fatal(p.shared.err)
	}
	namespace = p.namespace(t, sharedPrefix)
	view := p.shared.requests.view(namespace)
	t.Cleanup(func() {
		if forbidden := view.Forbidden(); len(forbidden) > 0 {
			t.Errorf("the manager's role does not allow: %v", forbidden)
		}
		p.shared.requests.dropView(namespace)
		p.deleteResources(t, namespace)
	})
	return namespace, &Manager{Requests: view, live: p.Client, namespaces: []string{namespace}, mgr: p.shared.manager}
}

// startShared starts the manager that tests share. It watches all namespaces, and sees custom resources in its own alone.
func (p *Plane) startShared() error {
	p.shared.requests = &Requests{usage: p.usage, views: map[string]*Requests{}}
	cfg := p.recorded(managerAccount, p.shared.requests)
	cfg.Wrap(onlyShared)
	opts := managerOptions()
	opts.Workers = sharedWorkers
	m := &Manager{Requests: p.shared.requests}
	if err := m.build(cfg, opts); err != nil {
		return err
	}
	m.run()
	p.shared.manager = m.mgr
	p.shared.stop = func() error {
		err := m.end()
		if forbidden := m.Requests.Forbidden(); len(forbidden) > 0 {
			err = errors.Join(err, fmt.Errorf("the role of the shared manager does not allow: %v", forbidden))
		}
		return err
	}
	select {
	case <-m.mgr.Elected():
		return nil
	case <-m.ended:
		return fmt.Errorf("the shared manager ended: %w", m.err)
	case <-time.After(Patience):
		return errors.New("the shared manager did not start")
	}
}

// deleteResources deletes the custom resources of a test that is over, so that nothing is retried for them.
func (p *Plane) deleteResources(t testing.TB, namespace string) {
	ctx, cancel := cleanupContext()
	defer cancel()
	for _, k := range fixture.Kinds {
		if err := p.Client.DeleteAllOf(ctx, k.New(), client.InNamespace(namespace)); err != nil {
			t.Logf("delete the resources of the kind %s in namespace %s: %v", k.Name, namespace, err)
		}
	}
}

// onlyShared removes from the lists and watches of custom resources what is in the namespaces of other managers.
func onlyShared(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		q := parse(req)
		resp, err := next.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK || q.Group != appv1.GroupVersion.Group {
			return resp, err
		}
		switch q.Verb {
		case "list":
			return resp, filterList(resp)
		case "watch":
			body := resp.Body
			reader, writer := io.Pipe()
			go func() { writer.CloseWithError(filterWatch(body, writer)) }()
			resp.Body = filteredBody{reader, body}
		}
		return resp, nil
	})
}

// filteredBody reads what is left of a watch. Its end is that of the watch.
type filteredBody struct {
	*io.PipeReader
	watch io.Closer
}

// Close implements io.Closer.
func (b filteredBody) Close() error { return errors.Join(b.PipeReader.Close(), b.watch.Close()) }

// namespaced is what there is to know of an object.
type namespaced struct {
	Metadata struct{ Namespace string }
}

// isShared reports whether an object is in a namespace of the shared manager.
func isShared(object json.RawMessage) (bool, error) {
	var obj namespaced
	err := json.Unmarshal(object, &obj)
	return strings.HasPrefix(obj.Metadata.Namespace, sharedPrefix), err
}

// filterList filters the objects of a list.
func filterList(resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	var list map[string]json.RawMessage
	var items, kept []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if err := json.Unmarshal(list["items"], &items); err != nil {
		return err
	}
	for _, item := range items {
		shared, err := isShared(item)
		if err != nil {
			return err
		}
		if shared {
			kept = append(kept, item)
		}
	}
	if list["items"], err = json.Marshal(kept); err != nil {
		return err
	}
	if data, err = json.Marshal(list); err != nil {
		return err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	resp.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return nil
}

// filterWatch copies the events of a watch, up to its end.
func filterWatch(watch io.Reader, to io.Writer) error {
	decoder, encoder := json.NewDecoder(watch), json.NewEncoder(to)
	for {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil {
			return err
		}
		shared, err := isShared(event.Object)
		if err != nil {
			return err
		}
		if shared || event.Type == "BOOKMARK" || event.Type == "ERROR" {
			if err := encoder.Encode(event); err != nil {
				return err
			}
		}
	}
}
