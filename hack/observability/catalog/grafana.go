package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// columns is the width of a dashboard.
const columns = 24

type object = map[string]any

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// JSON returns the dashboard as Grafana reads it.
func (d *Dashboard) JSON() ([]byte, error) {
	variables := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	if d.Namespaces {
		variables = append(variables, object{
			"name": "namespace", "label": "Namespace", "type": "query", "datasource": datasource, "refresh": 2, "sort": 1,
			"query":      object{"query": "label_values(app_operator_resources, namespace)", "refId": "namespace"},
			"includeAll": true, "allValue": ".*", "multi": true, "current": object{"text": "All", "value": "$__all"},
		})
	}
	var panels []object
	top := 0
	for _, row := range d.Rows {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": top, "w": columns, "h": 1},
		})
		top++
		left := 0
		for i := range row.Panels {
			p := &row.Panels[i]
			panels = append(panels, p.object(len(panels)+1, object{"x": left, "y": top, "w": p.Width, "h": row.Height}))
			left += p.Width
		}
		if left != columns {
			return nil, fmt.Errorf("%s: the row %q is %d wide, not %d", d.Title, row.Title, left, columns)
		}
		top += row.Height
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(object{
		"uid": d.UID, "title": "app-operator / " + d.Title, "description": d.Description, "tags": []string{"app-operator"},
		"schemaVersion": 39, "editable": true, "refresh": "1m", "time": object{"from": "now-6h", "to": "now"},
		"templating": object{"list": variables}, "panels": panels,
	})
	return out.Bytes(), err
}

// object returns the panel as Grafana reads it.
func (p *Panel) object(id int, at object) object {
	var targets []object
	for i, q := range p.Queries {
		target := object{"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.Expr, "legendFormat": q.Legend}
		if p.Type == "table" {
			target["format"], target["instant"] = "table", true
		}
		targets = append(targets, target)
	}
	panel := object{
		"id": id, "type": p.Type, "title": p.Title, "description": p.Description, "datasource": datasource, "gridPos": at,
		"targets":     targets,
		"fieldConfig": object{"defaults": object{"unit": p.Unit}, "overrides": []object{}},
	}
	if p.Type == "table" {
		panel["transformations"] = []object{{"id": "organize", "options": object{"excludeByName": object{"Time": true}}}}
	}
	return panel
}

// Expressions returns the expressions of all dashboards as recording rules, with Grafana's variables filled in.
func Expressions() Rules[Record] {
	fill := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*")
	var rules Rules[Record]
	for _, d := range Dashboards() {
		group := Group[Record]{Name: d.UID}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for i, q := range p.Queries {
					name := strings.ToLower(strings.NewReplacer(" ", "_", "-", "_").Replace(d.Title + ":" + p.Title))
					group.Rules = append(group.Rules, Record{Record: fmt.Sprintf("%s:%d", name, i), Expr: fill.Replace(q.Expr)})
				}
			}
		}
		rules.Groups = append(rules.Groups, group)
	}
	return rules
}
