package ui

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"huolala.cn/app-operator/plugin/view"
)

// assets are the style sheet, the program of the pages and what that uses.
//
//go:embed assets/style.css assets/happ.js assets/vendor/idiomorph.js
var assets embed.FS

//go:embed templates/*.html
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{"class": class, "shape": shape}).ParseFS(files, "templates/*.html"))

// serveAsset returns a handler that serves a file of the assets.
func serveAsset(name, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			http.Error(w, "There is no such file.", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", contentType+"; charset=utf-8")
		_, _ = w.Write(text)
	}
}

// class returns the style class of a state or a mark, one of a fixed set, so that no text of the cluster becomes a class.
func class(of any) string {
	mark, _ := of.(view.Mark)
	if state, ok := of.(view.State); ok {
		mark = state.Mark()
	}
	switch mark {
	case view.MarkGood, view.MarkBusy, view.MarkHold, view.MarkFail, view.MarkBad:
		return string(mark)
	}
	return "none"
}

// shape returns the sign of a state or a mark, so that no one needs to tell colors apart.
func shape(of any) string {
	if state, ok := of.(view.State); ok {
		return state.Sign()
	}
	mark, _ := of.(view.Mark)
	return mark.Sign()
}

// render answers with a page. It is rendered as a whole first, so that no half a page is sent.
func (s *Server) render(w http.ResponseWriter, status int, name string, data map[string]any) {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name, data); err != nil {
		http.Error(w, "The page cannot be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

// common returns the data of all pages of a session.
func (s *Server) common(r *http.Request) map[string]any {
	secret, _ := s.secret(r)
	return map[string]any{
		"Base": s.page(""), "Plans": s.options.Actor != nil, "Token": formToken(secret), "Context": s.options.Context, "Namespaces": s.options.Namespaces,
		"Time": s.options.Now().Format("15:04:05"), "Page": "",
	}
}

// record is the history of a part of a resource.
type record struct {
	Part      view.Part
	Revisions []revision
}

// revision is a row of a history, with its changes in words.
type revision struct {
	view.Revision
	Changes []string
}

func (s *Server) resourcePage(w http.ResponseWriter, r *http.Request) {
	kind, known := view.KindOf(r.PathValue("kind"))
	if !known {
		http.Error(w, "There is no such page.", http.StatusNotFound)
		return
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	data := s.common(r)
	data["Refresh"], data["Title"] = r.URL.Query().Has("refresh"), kind.Name+" "+namespace+"/"+name
	data["Again"] = choice{rows: moreRows, refresh: !r.URL.Query().Has("refresh")}.query()
	data["Events"] = s.address(kind.Name, namespace, name) + "/events"
	found, problem, err := s.readSnapshot(r, kind, namespace, name)
	s.addResource(r, data, kind, found, err)
	if problem != "" {
		data["Problem"] = problem
	}
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
	}
	s.render(w, status, "resource.html", data)
}

// addResource adds the data of a resource, or the reason why there is none.
func (s *Server) addResource(r *http.Request, data map[string]any, kind view.Kind, found *view.Snapshot, err error) {
	if err != nil {
		data["Problem"] = view.Clean(err.Error())
		return
	}
	text, err := specText(&found.Resource)
	if err != nil {
		data["Problem"] = view.Clean(err.Error())
	}
	data["Spec"] = text
	data["Why"], data["Tree"] = view.WhyOf(found, 10), view.TreeOf(found, view.TreeOptions{})
	data["Progress"], data["History"] = view.ProgressOf(found), historyOf(found)
	s.addActions(r, data, kind, found)
}

// statusOf returns the HTTP status of a page that cannot be shown because of an error: the API server's status for an error of the client,
// else 502. The status 401 is only for requests without a session of this server.
func statusOf(err error) int {
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		if code := int(refused.Status().Code); code >= 400 && code < 500 && code != http.StatusUnauthorized {
			return code
		}
	}
	return http.StatusBadGateway
}

// historyOf returns the history of each part that has one. Values that may be secret are hidden.
func historyOf(s *view.Snapshot) []record {
	var records []record
	for i := range s.Resource.Workloads {
		part := s.Resource.Workloads[i].Part
		history, err := view.HistoryOf(s, part)
		if err != nil {
			continue
		}
		rec := record{Part: part}
		for i := range history.Revisions {
			rev := revision{Revision: history.Revisions[i]}
			for _, change := range view.Redact(rev.Revision.Changes) {
				rev.Changes = append(rev.Changes, change.String())
			}
			rec.Revisions = append(rec.Revisions, rev)
		}
		records = append(records, rec)
	}
	return records
}

// specOf returns the spec as data.
func specOf(r *view.Resource) (map[string]any, error) {
	text, err := json.Marshal(r.Spec)
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	err = json.Unmarshal(text, &spec)
	return spec, err
}

// specText returns the spec as YAML, without values that may be secret.
func specText(r *view.Resource) (string, error) {
	spec, err := specOf(r)
	if err != nil {
		return "", err
	}
	shown, err := view.EncodeYAML(view.RedactSpec(spec))
	return string(shown), err
}
