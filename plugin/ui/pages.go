package ui

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/view"
)

// assets are the style sheet, the program of the pages and what that uses.
//
//go:embed assets/style.css assets/happ.js assets/vendor/idiomorph.js
var assets embed.FS

//go:embed templates/*.html
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{"class": styleClass, "shape": signOf, "ago": view.TimeAgo, "stamp": view.FormatUTC, "pieces": piecesOf, "brief": shortenText}).ParseFS(files, "templates/*.html"))

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

// styleClass returns the style class of a state or a mark, one of a fixed set, so that no text of the cluster becomes a class.
func styleClass(of any) string {
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

// maxBrief is the maximum length of a text in a row of the list, in bytes of HTML. The page of the resource has the whole text.
const maxBrief = 200

// shortenText returns the beginning of a text that is too long for a row. The bytes count as a page has them: a quote takes five.
func shortenText(text string) string {
	left := maxBrief
	for i, char := range text {
		if left -= len(template.HTMLEscapeString(string(char))); left < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// signOf returns the sign of a state or a mark, so that no one needs to tell colors apart.
func signOf(of any) string {
	if state, ok := of.(view.State); ok {
		return state.Sign()
	}
	mark, _ := of.(view.Mark)
	return mark.Sign()
}

// piece is a part of a text: a flag of a command, which stays in one line, or the text between two flags.
type piece struct {
	Text string
	Flag bool
}

// flagWord matches a flag of a command in a text.
var flagWord = regexp.MustCompile(`\B-[-a-z]\S*`)

// piecesOf returns the parts of a text. A browser would break a line after the hyphens of a flag.
func piecesOf(text string) []piece {
	var all []piece
	end := 0
	for _, at := range flagWord.FindAllStringIndex(text, -1) {
		all = append(all, piece{Text: text[end:at[0]]}, piece{text[at[0]:at[1]], true})
		end = at[1]
	}
	return append(all, piece{Text: text[end:]})
}

// noPage answers a request for a page that does not exist.
func (s *Server) noPage(w http.ResponseWriter, r *http.Request) {
	s.renderError(w, r, http.StatusNotFound, "There is no such page.")
}

// renderError answers with a page that has a problem, and the way back.
func (s *Server) renderError(w http.ResponseWriter, r *http.Request, status int, problem string) {
	data := s.commonData(r)
	data["Problem"] = problem
	s.renderPage(w, status, "error.html", data)
}

// renderPage answers with a page. It is rendered as a whole first, so that no half a page is sent.
func (s *Server) renderPage(w http.ResponseWriter, status int, name string, data map[string]any) {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name, data); err != nil {
		http.Error(w, "The page cannot be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

// commonData returns the data of all pages of a session.
func (s *Server) commonData(r *http.Request) map[string]any {
	token := ""
	if secret, ok := s.sessionSecret(r); ok {
		token = formToken(secret)
	}
	return map[string]any{
		"Base": s.pagePath(""), "Plans": s.options.Actor != nil, "Token": token, "Context": s.options.Context, "Namespaces": s.options.Namespaces,
		"Time": s.options.clockTime(s.options.Now()), "Page": "",
	}
}

// clockTime returns the time of the day in the zone of this machine, which is the user's. The readers of a viewer have other zones, and get UTC.
func (o *Options) clockTime(at time.Time) string {
	if o.Viewer != nil {
		return at.UTC().Format(time.TimeOnly) + " UTC"
	}
	return at.Format(time.TimeOnly)
}

// addTime adds the time that a read state is of, and the problem if it is not the present one.
func (s *Server) addTime(data map[string]any, found *content, problem string) {
	if !found.at.IsZero() {
		data["Time"] = s.options.clockTime(found.at)
	}
	if problem != "" {
		data["Problem"] = problem
	}
}

func (s *Server) resourcePage(w http.ResponseWriter, r *http.Request) {
	kind, known := view.KindOf(r.PathValue("kind"))
	if !known {
		s.noPage(w, r)
		return
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	if !s.canExist(namespace, name) {
		s.noPage(w, r)
		return
	}
	data := s.commonData(r)
	data["Kind"], data["Namespace"], data["Name"] = kind.Name, namespace, name
	data["Refresh"], data["Title"] = r.URL.Query().Has("refresh"), kind.Name+" "+namespace+"/"+name
	data["Again"] = choice{rows: moreRows, refresh: !r.URL.Query().Has("refresh")}.encodeQuery()
	data["Events"] = s.resourcePath(kind.Name, namespace, name) + "/events"
	if secret, ok := s.sessionSecret(r); ok {
		data["Done"] = s.sessions.takeNote(secret, s.resourcePath(kind.Name, namespace, name))
	}
	found, problem, err := s.readPage(r, Topic{kind.Name, namespace, name})
	s.addResource(r, data, kind, found.snapshot, err)
	s.addTime(data, &found, problem)
	status := http.StatusOK
	if err != nil {
		status = statusOf(err)
	}
	s.renderPage(w, status, "resource.html", data)
}

// canExist reports whether a resource can have a name in a namespace. For another one, a viewer sends no request and follows nothing; to a user, the
// API server says what is wrong.
func (s *Server) canExist(namespace, name string) bool {
	return s.options.Viewer == nil || view.CanExist(namespace, name)
}

// maxSpec is how many bytes of a spec a page has.
const maxSpec = 64 << 10

// maxAlike is how many pods in the same state a tree has, maxEvents how many events the list of what has happened, and maxLatestRuns how many runs of
// a Task the table of runs.
const maxAlike, maxEvents, maxLatestRuns = 3, 8, 10

// questions are the headings above the cause of a state.
var questions = map[view.Group]string{
	view.GroupNeedsYou: "What is wrong", view.GroupInProgress: "What is going on", view.GroupOnHold: "What waits", view.GroupReady: "What to know",
}

// addResource adds the data of a resource, or the reason why there is none.
func (s *Server) addResource(r *http.Request, data map[string]any, kind view.Kind, found *view.Snapshot, err error) {
	if err != nil {
		data["Problem"] = view.ErrorText(err)
		return
	}
	text, err := specText(found)
	if err != nil {
		data["Problem"] = view.ErrorText(err)
	}
	data["Spec"], data["Now"] = text, s.options.Now()
	data["Why"], data["Tree"] = view.WhyOf(found, 0), view.TreeOf(found, view.TreeOptions{Limit: maxAlike})
	data["Facts"], data["Way"], data["PodRows"] = view.FactsOf(found), view.WayOf(found), view.PodRows(found)
	data["Before"] = view.BeforeOf(found)
	if runs := view.RunsOf(found); runs != nil {
		data["Runs"], data["LatestRuns"] = runs, runs.Runs[:min(len(runs.Runs), maxLatestRuns)]
	}
	data["Happened"], data["Chart"] = view.HappenedOf(found, maxEvents), newChart(view.RolloutOf(found))
	why, _ := data["Why"].(*view.Why)
	data["Question"], data["Down"], data["Tiers"] = questions[why.State.Group()], found.Resource.Pods.Down(), len(found.Resource.Tiers) > 0
	if why.Since != nil {
		data["For"] = view.CoarseDuration(s.options.Now().Sub(why.Since.Time))
	}
	lines, more := view.PodLines(found)
	data["Pods"], data["MorePods"], data["AllPods"] = lines, more, message.Count(len(lines)+more, "pod")
	if s.options.Logs != nil {
		data["Logs"] = s.resourcePath(kind.Name, found.Resource.ObjectMeta.Namespace, found.Resource.ObjectMeta.Name) + "/logs"
	}
	s.addActions(r, data, kind, found)
}

// statusOf returns the HTTP status of a page that cannot be shown because of an error: the API server's status for an error of the client,
// 503 where a viewer follows too much, else 502. The status 401 is only for requests without a session of this server.
func statusOf(err error) int {
	if errors.Is(err, errTooMany) {
		return http.StatusServiceUnavailable
	}
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		if code := int(refused.Status().Code); code >= 400 && code < 500 && code != http.StatusUnauthorized {
			return code
		}
	}
	return http.StatusBadGateway
}

// specText returns the spec as YAML, without values that may be secret.
func specText(s *view.Snapshot) (string, error) {
	spec, err := view.DecodeFields(s.Resource.Spec)
	if err != nil {
		return "", err
	}
	shown, err := view.EncodeYAML(s.HideValues(spec))
	return view.CutLines(string(shown), maxSpec), err
}
