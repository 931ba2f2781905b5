package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"huolala.cn/app-operator/plugin/view"
)

// LogReader reads logs as the user.
type LogReader interface {
	// ReadLogs returns the latest lines of the logs that are chosen of a resource, and how many further logs are like them.
	ReadLogs(ctx context.Context, kind view.Kind, namespace, name string, o view.LogOptions) (logs []Log, more int, err error)
}

// Log is the latest lines of a log.
type Log struct {
	view.LogSource
	// Text has the lines, or is empty where None has the reason why there are none.
	Text string
}

// maxLogs is how many logs a page has.
const maxLogs = 3

// The texts of the links to other logs.
const (
	textRunBefore  = "The run before"
	textPresentRun = "The present run"
	textContainer  = "Container %s"
)

// logsPage shows the logs that matter of a resource, or the log of a container. They are read when the page is opened, and not followed.
func (s *Server) logsPage(w http.ResponseWriter, r *http.Request) {
	kind, known := view.KindOf(r.PathValue("kind"))
	if !known {
		s.noPage(w, r)
		return
	}
	namespace, name, query := r.PathValue("namespace"), r.PathValue("name"), r.URL.Query()
	o := view.LogOptions{Pod: query.Get("pod"), Container: query.Get("container"), Most: maxLogs}
	if previous, err := strconv.ParseBool(query.Get("previous")); err == nil {
		o.Previous = &previous
	}
	data, status := s.commonData(r), http.StatusOK
	data["Back"], data["Title"] = s.resourcePath(kind.Name, namespace, name), "Logs: "+kind.Name+" "+namespace+"/"+name
	found, more, err := s.options.Logs.ReadLogs(r.Context(), kind, namespace, name, o)
	if err != nil {
		status, data["Problem"] = statusOf(err), view.ErrorText(err)
	}
	items := make([]logItem, len(found))
	for i := range found {
		items[i] = logItem{found[i], linksOf(&found[i])}
	}
	data["Logs"], data["MoreLogs"] = items, more
	s.renderPage(w, status, "logs.html", data)
}

// logItem is a log with the links to others.
type logItem struct {
	Log
	Links []option
}

// linksOf returns the links to the log of the container's other run, and of the pod's other containers.
func linksOf(l *Log) []option {
	run := option{Text: textRunBefore}
	if l.Previous {
		run.Text = textPresentRun
	}
	query := url.Values{"pod": {l.Pod}, "container": {l.Container}, "previous": {strconv.FormatBool(!l.Previous)}}
	run.Link = "?" + query.Encode()
	links := []option{run}
	for _, other := range l.Others {
		query := url.Values{"pod": {l.Pod}, "container": {other}}
		links = append(links, option{Text: fmt.Sprintf(textContainer, other), Link: "?" + query.Encode()})
	}
	return links
}
