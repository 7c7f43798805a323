package p2pdiloco

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

// Whoever reads go doc sees what each type has: a field, a method or its constants. A type that is
// another one's alias is one of a package that users import, and is told there.
func TestGoDocShowsEachType(t *testing.T) {
	shown := map[string]bool{}
	for _, dir := range []string{"trainer", "spec", "."} {
		files := token.NewFileSet()
		packages, err := parser.ParseDir(files, dir, func(f fs.FileInfo) bool { //nolint:staticcheck // one build tag
			return !strings.HasSuffix(f.Name(), "_test.go")
		}, parser.ParseComments)
		noError(t, err)
		for name, p := range packages {
			for _, typ := range doc.New(p, dir, 0).Types {
				is := typ.Decl.Specs[0].(*ast.TypeSpec)
				for _, s := range typ.Decl.Specs {
					if s := s.(*ast.TypeSpec); s.Name.Name == typ.Name {
						is = s
					}
				}
				shown[name+"."+typ.Name] = len(typ.Methods)+len(typ.Consts) > 0 || shows(is.Type, shown)
				if !shown[name+"."+typ.Name] {
					t.Errorf("go doc %s.%s shows no field and no method", name, typ.Name)
				}
			}
		}
	}
	if len(shown) < 60 || !shown["p2pdiloco.Event"] || !shown["trainer.Trainer"] || !shown["p2pdiloco.Task"] {
		t.Errorf("the test has seen %v", shown)
	}
}

// shows says whether a type has an exported field or method of its own, or is one of shown.
func shows(e ast.Expr, shown map[string]bool) bool {
	var fields *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		fields = e.Fields
	case *ast.InterfaceType:
		fields = e.Methods
	case *ast.SelectorExpr:
		return shown[e.X.(*ast.Ident).Name+"."+e.Sel.Name]
	case *ast.ArrayType:
		return true // of what stands there
	default:
		return false
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			if name.IsExported() {
				return true
			}
		}
	}
	return false
}
