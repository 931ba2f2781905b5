package ui

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"huolala.cn/app-operator/plugin/view"
)

// planPage shows a form for resources in YAML, with one of the cluster to begin with if the address names one.
func (s *Server) planPage(w http.ResponseWriter, r *http.Request) {
	data, status := s.commonData(r), http.StatusOK
	data["Page"] = "plan"
	if of := r.URL.Query().Get("of"); of != "" {
		text, err := s.draftText(r, of)
		if err != nil {
			status, data["Problem"] = statusOf(err), view.ErrorText(err)
		}
		data["Text"], data["Hidden"] = text, text == "" && err == nil
	}
	s.renderPage(w, status, "plan.html", data)
}

// draftText returns the resource of a path of the pages as a user would write it, empty if something in it is hidden: a plan of the text would
// count that as changed.
func (s *Server) draftText(r *http.Request, of string) (string, error) {
	path := strings.SplitN(of, "/", 3)
	kind, known := view.KindOf(path[0])
	if !known || len(path) < 3 {
		return "", apierrors.NewBadRequest(fmt.Sprintf("%q is no KIND/NAMESPACE/NAME", of))
	}
	found, err := s.options.Reader.ReadSnapshot(r.Context(), kind, path[1], path[2])
	if err != nil {
		return "", err
	}
	spec, err := view.DecodeFields(found.Resource.Spec)
	if err != nil || !reflect.DeepEqual(view.RedactSpec(spec), spec) {
		return "", err
	}
	text, err := view.EncodeYAML(map[string]any{
		"apiVersion": kind.APIVersion(), "kind": kind.Name, "metadata": map[string]any{"namespace": path[1], "name": path[2]}, "spec": spec,
	})
	return string(text), err
}

// showPlan answers with the plan of the posted text. It changes nothing.
func (s *Server) showPlan(w http.ResponseWriter, r *http.Request) {
	data, status := s.commonData(r), http.StatusOK
	data["Page"] = "plan"
	// Browsers send line breaks as two characters each.
	text := strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n")
	data["Text"] = text
	if proposal, err := s.options.Actor.PlanText(r.Context(), text); err != nil {
		status, data["Problem"] = statusOf(err), view.ErrorText(err)
	} else {
		data["Proposal"] = proposal
	}
	s.renderPage(w, status, "plan.html", data)
}
