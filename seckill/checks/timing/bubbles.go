package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// bubbles says which code runs in a bubble of synctest.
type bubbles struct {
	funcs []*function // by their beginnings: a function literal comes after the function that holds it
}

// function is a function, a function literal, or a variable of the package, which may hold functions.
type function struct {
	node   ast.Node
	outer  *function // that holds it; nil at the top
	entry  bool      // synctest.Test calls it
	uses   []use     // of the name under which it is called, if it has one
	bubble bool
}

// use is one mention of a function: in which function, nil at the top, and whether it is given to synctest.Test.
type use struct {
	in    *function
	entry bool
}

func (u use) bubble() bool { return u.entry || u.in != nil && u.in.bubble }

// findBubbles finds them. A method that is not called by its name is called through an interface: it is in a
// bubble if all values of its type are made in one. Functions that a variable of the package holds, such as a
// table, are in one if any use of the variable is: other uses read the table.
func findBubbles(info *types.Info, files []*ast.File) *bubbles {
	b := &bubbles{}
	named := map[types.Object]*function{}
	entries := map[ast.Expr]bool{}
	set := map[*function]types.Object{} // what init sets a variable of the package to
	name := func(id *ast.Ident, e ast.Expr, lits map[*ast.FuncLit]types.Object) {
		if lit, ok := ast.Unparen(e).(*ast.FuncLit); ok {
			lits[lit] = info.ObjectOf(id)
		}
	}
	for _, f := range files {
		lits := map[*ast.FuncLit]types.Object{} // the variables that hold them
		var stack []*function
		ast.Inspect(f, func(n ast.Node) bool {
			for n != nil && len(stack) > 0 && stack[len(stack)-1].node.End() <= n.Pos() {
				stack = stack[:len(stack)-1]
			}
			switch n := n.(type) {
			case *ast.CallExpr:
				if isSynctest(info, n) && len(n.Args) == 2 {
					entries[ast.Unparen(n.Args[1])] = true
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					id, ok := to.(*ast.Ident)
					if !ok || len(n.Lhs) != len(n.Rhs) {
						continue
					}
					name(id, n.Rhs[i], lits)
					if in, ok := stack[len(stack)-1].node.(*ast.FuncDecl); ok && in.Name.Name == "init" {
						fn := &function{node: n.Rhs[i]}
						b.funcs, stack = append(b.funcs, fn), append(stack, fn)
						set[fn] = info.ObjectOf(id)
					}
				}
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if len(n.Names) == len(n.Values) && len(stack) > 0 {
						name(id, n.Values[i], lits)
					}
				}
			}
			switch n.(type) {
			case *ast.FuncDecl, *ast.FuncLit, *ast.ValueSpec:
				fn := &function{node: n}
				if len(stack) > 0 {
					fn.outer = stack[len(stack)-1]
				}
				if _, ok := n.(*ast.ValueSpec); ok && fn.outer != nil {
					break
				}
				b.funcs, stack = append(b.funcs, fn), append(stack, fn)
				switch n := n.(type) {
				case *ast.ValueSpec:
					for _, id := range n.Names {
						named[info.ObjectOf(id)] = fn
					}
				case *ast.FuncDecl:
					named[info.ObjectOf(n.Name)] = fn
				case *ast.FuncLit:
					fn.entry = entries[n]
					if object := lits[n]; object != nil {
						named[object] = fn
					}
				}
			}
			return true
		})
	}
	for fn, variable := range set {
		fn.outer = named[variable]
	}
	slices.SortStableFunc(b.funcs, func(x, y *function) int { return cmp.Compare(x.node.Pos(), y.node.Pos()) })
	made := map[types.Object][]use{} // where values of a type are made
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok {
					made[info.Uses[id]] = append(made[info.Uses[id]], use{in: b.at(n.Pos())})
				}
			case *ast.Ident:
				object := info.Uses[n]
				if method, ok := object.(*types.Func); ok {
					object = method.Origin()
				}
				if fn := named[object]; object != nil && fn != nil {
					fn.uses = append(fn.uses, use{in: b.at(n.Pos()), entry: entries[n]})
				}
			}
			return true
		})
	}
	for _, fn := range b.funcs {
		method, ok := fn.node.(*ast.FuncDecl)
		if !ok || method.Recv == nil || len(fn.uses) > 0 {
			continue
		}
		of := method.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok {
			fn.uses = made[info.Uses[id]]
		}
	}
	b.settle()
	return b
}

// settle decides which functions are in a bubble: all that nothing speaks against, so that functions that call each
// other are in one if those are that call them from outside.
func (b *bubbles) settle() {
	for _, fn := range b.funcs {
		fn.bubble = true
	}
	for changed := true; changed; {
		changed = false
		for _, fn := range b.funcs {
			inside := fn.entry || fn.outer != nil && fn.outer.bubble
			switch fn.node.(type) {
			case *ast.ValueSpec:
				inside = slices.ContainsFunc(fn.uses, use.bubble)
			default:
				inside = inside || len(fn.uses) > 0 &&
					!slices.ContainsFunc(fn.uses, func(u use) bool { return !u.bubble() })
			}
			changed = changed || fn.bubble && !inside
			fn.bubble = fn.bubble && inside
		}
	}
}

// at returns the innermost function that holds a position, nil at the top.
func (b *bubbles) at(pos token.Pos) *function {
	i, found := slices.BinarySearchFunc(b.funcs, pos,
		func(fn *function, pos token.Pos) int { return cmp.Compare(fn.node.Pos(), pos) })
	if !found {
		i--
	}
	for ; i >= 0; i-- {
		if fn := b.funcs[i]; pos < fn.node.End() {
			return fn
		}
	}
	return nil
}

// holds reports whether the code at a position runs in a bubble.
func (b *bubbles) holds(pos token.Pos) bool {
	fn := b.at(pos)
	return fn != nil && fn.bubble
}

func isSynctest(info *types.Info, call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Test" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return false
	}
	imported, ok := info.ObjectOf(x).(*types.PkgName)
	return ok && imported.Imported().Path() == "testing/synctest"
}
