package document

import (
	"html/template"
	"io"
)

// page writes a page of its own: no script, and nothing that is loaded from elsewhere.
func page(w io.Writer, peers []Peer) error {
	var pictures []template.HTML
	for _, g := range graphs {
		if picture, ok := g.draw(peers); ok {
			pictures = append(pictures, template.HTML(picture)) //nolint:gosec // svg escapes what is text
		}
	}
	return layout.Execute(w, struct {
		summary
		Pictures []template.HTML
	}{summaryOf(peers), pictures})
}

var layout = template.Must(template.New("report").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Report of a run</title>
<style>
body { font: 16px sans-serif; margin: 2em auto; max-width: 96em; padding: 0 1em; }
table { border-collapse: collapse; overflow-x: auto; display: block; }
th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
section { display: flex; flex-wrap: wrap; gap: 1em; margin-top: 1em; }
svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } svg { border-radius: 4px; } }
</style>
<h1>Report of a run</h1>
<table>
<tr><td></td>{{range .Peers}}<th scope="col">{{.}}</th>{{end}}</tr>
{{range .Facts}}<tr><th scope="row">{{.What}}</th>{{range .Of}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
<section>
{{range .Pictures}}{{.}}{{end}}</section>
</html>
`))
