//! Rewrites a template's syntax tree with a meter on everything that can grow.
//!
//! The interpreter counts steps, not bytes: forty steps that double a string would take a terabyte.
//! So the operands of each such operation pass the filters of [`meter`](crate::meter), which abort
//! the rendering after too many bytes. Operations whose result is longer than all operands
//! (`replace`, `join` …) have their own meter, also when called by name.

use std::collections::BTreeMap;

use minijinja::Value;
use minijinja::machinery::{Span, ast::*};
use minijinja::value::ValueKind;

use crate::meter::{SHALLOW, WEIGH};
use crate::template_functions::{PERCENT, TEXT};

/// Filters that return their input or look only at its items.
const OF_ITEMS: &[&str] = &[
    "length",
    "count",
    "first",
    "last",
    "list",
    "items",
    "selectattr",
    "rejectattr",
    "default",
    "d",
    "dictsort",
    "reverse",
];

/// Tests that look only at a value's kind.
const OF_KINDS: &[&str] = &[
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "integer",
    "int",
    "float",
    "boolean",
    "true",
    "false",
    "mapping",
    "sequence",
    "iterable",
    "odd",
    "even",
    "divisibleby",
    "safe",
    "escaped",
    "filter",
    "test",
    "sameas",
    "callable",
];

/// Returns the template with meters.
pub fn metered<'a>(template: &Stmt<'a>) -> Stmt<'a> {
    statement(template)
}

fn statements<'a>(body: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    body.iter().map(statement).collect()
}

fn statement<'a>(stmt: &Stmt<'a>) -> Stmt<'a> {
    match stmt {
        Stmt::Template(s) => Stmt::Template(again(s, |t| Template {
            children: statements(&t.children),
        })),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(again(s, |e| EmitExpr {
            expr: weighed(&e.expr),
        })),
        // In a captured block the template's text grows like any other.
        Stmt::EmitRaw(s) => {
            let value = Value::from(s.raw);
            let text = Expr::Const(Spanned::new(Const { value }, s.span()));
            let expr = filtered(WEIGH, Some(text), s.span());
            Stmt::EmitExpr(Spanned::new(EmitExpr { expr }, s.span()))
        }
        Stmt::ForLoop(s) => Stmt::ForLoop(again(s, |f| ForLoop {
            target: target(&f.target),
            iter: counted(&f.iter),
            filter_expr: f.filter_expr.as_ref().map(expression),
            recursive: f.recursive,
            body: statements(&f.body),
            else_body: statements(&f.else_body),
        })),
        Stmt::IfCond(s) => Stmt::IfCond(again(s, |i| IfCond {
            expr: expression(&i.expr),
            true_body: statements(&i.true_body),
            false_body: statements(&i.false_body),
        })),
        Stmt::WithBlock(s) => Stmt::WithBlock(again(s, |w| WithBlock {
            assignments: w
                .assignments
                .iter()
                .map(|(to, from)| (target(to), expression(from)))
                .collect(),
            body: statements(&w.body),
        })),
        Stmt::Set(s) => Stmt::Set(again(s, |set| Set {
            target: target(&set.target),
            expr: expression(&set.expr),
        })),
        Stmt::SetBlock(s) => Stmt::SetBlock(again(s, |set| SetBlock {
            target: target(&set.target),
            filter: set.filter.as_ref().map(expression),
            body: statements(&set.body),
        })),
        Stmt::AutoEscape(s) => Stmt::AutoEscape(again(s, |a| AutoEscape {
            enabled: expression(&a.enabled),
            body: statements(&a.body),
        })),
        Stmt::FilterBlock(s) => Stmt::FilterBlock(again(s, |f| FilterBlock {
            filter: expression(&f.filter),
            body: statements(&f.body),
        })),
        Stmt::Block(s) => Stmt::Block(again(s, |b| Block {
            name: b.name,
            required: b.required,
            body: statements(&b.body),
        })),
        Stmt::Import(s) => Stmt::Import(again(s, |i| Import {
            expr: expression(&i.expr),
            name: expression(&i.name),
        })),
        Stmt::FromImport(s) => Stmt::FromImport(again(s, |i| FromImport {
            expr: expression(&i.expr),
            names: i
                .names
                .iter()
                .map(|(name, alias)| (expression(name), alias.as_ref().map(expression)))
                .collect(),
        })),
        Stmt::Extends(s) => Stmt::Extends(again(s, |e| Extends {
            name: expression(&e.name),
        })),
        Stmt::Include(s) => Stmt::Include(again(s, |i| Include {
            name: expression(&i.name),
            ignore_missing: i.ignore_missing,
        })),
        Stmt::Macro(s) => Stmt::Macro(again(s, a_macro)),
        Stmt::CallBlock(s) => Stmt::CallBlock(again(s, |c| CallBlock {
            call: again(&c.call, call),
            macro_decl: again(&c.macro_decl, a_macro),
        })),
        Stmt::Continue(s) => Stmt::Continue(again(s, |_| Continue)),
        Stmt::Break(s) => Stmt::Break(again(s, |_| Break)),
        Stmt::Do(s) => Stmt::Do(again(s, |d| Do {
            call: again(&d.call, call),
        })),
    }
}

fn a_macro<'a>(declared: &Macro<'a>) -> Macro<'a> {
    Macro {
        name: declared.name,
        args: declared.args.iter().map(expression).collect(),
        defaults: declared.defaults.iter().map(expression).collect(),
        body: statements(&declared.body),
    }
}

fn expression<'a>(expr: &Expr<'a>) -> Expr<'a> {
    match expr {
        Expr::Var(s) => Expr::Var(again(s, |v| Var { id: v.id })),
        Expr::Const(s) => Expr::Const(again(s, |c| Const {
            value: c.value.clone(),
        })),
        Expr::Slice(s) => Expr::Slice(again(s, |slice| Slice {
            expr: counted(&slice.expr),
            start: slice.start.as_ref().map(expression),
            stop: slice.stop.as_ref().map(expression),
            step: slice.step.as_ref().map(expression),
        })),
        Expr::UnaryOp(s) => Expr::UnaryOp(again(s, |u| UnaryOp {
            op: match u.op {
                UnaryOpKind::Not => UnaryOpKind::Not,
                UnaryOpKind::Neg => UnaryOpKind::Neg,
            },
            expr: expression(&u.expr),
        })),
        Expr::BinOp(s) => binary(s),
        Expr::Compare(s) => Expr::Compare(again(s, |c| Compare {
            expr: weighed(&c.expr),
            ops: c
                .ops
                .iter()
                .map(|next| CompareOp {
                    op: next.op,
                    expr: weighed(&next.expr),
                })
                .collect(),
        })),
        Expr::IfExpr(s) => Expr::IfExpr(again(s, |i| IfExpr {
            test_expr: expression(&i.test_expr),
            true_expr: expression(&i.true_expr),
            false_expr: i.false_expr.as_ref().map(expression),
        })),
        Expr::Filter(s) => {
            let of_items = OF_ITEMS.contains(&s.name);
            let meter = if of_items { SHALLOW } else { WEIGH };
            let inner = again(s, |f| Filter {
                name: f.name,
                expr: Some(filtered(meter, f.expr.as_ref().map(expression), s.span())),
                args: arguments(&f.args),
            });
            filtered(meter, Some(Expr::Filter(inner)), s.span())
        }
        Expr::Test(s) => Expr::Test(again(s, |t| Test {
            name: t.name,
            expr: match OF_KINDS.contains(&t.name) {
                true => expression(&t.expr),
                false => weighed(&t.expr),
            },
            args: arguments(&t.args),
        })),
        Expr::GetAttr(s) => Expr::GetAttr(again(s, |g| GetAttr {
            expr: expression(&g.expr),
            name: g.name,
        })),
        Expr::GetItem(s) => Expr::GetItem(again(s, |g| GetItem {
            expr: expression(&g.expr),
            subscript_expr: weighed(&g.subscript_expr),
        })),
        Expr::Call(s) => Expr::Call(again(s, call)),
        Expr::List(s) => Expr::List(again(s, |l| List {
            items: l.items.iter().map(weighed).collect(),
        })),
        Expr::Tuple(s) => Expr::Tuple(again(s, |t| Tuple {
            items: t.items.iter().map(weighed).collect(),
        })),
        // No published template needs more, and the page's engine is to be small.
        Expr::Map(s) if cfg!(target_family = "wasm") => Expr::Map(again(s, |m| Map {
            keys: m.keys.iter().map(weighed).collect(),
            values: m.values.iter().map(weighed).collect(),
        })),
        Expr::Map(s) => Expr::Map(again(s, distinct)),
    }
}

fn binary<'a>(node: &Spanned<BinOp<'a>>) -> Expr<'a> {
    let with = |operand: fn(&Expr<'a>) -> Expr<'a>| {
        Expr::BinOp(again(node, |b| BinOp {
            op: b.op,
            left: operand(&b.left),
            right: operand(&b.right),
        }))
    };
    match node.op {
        BinOpKind::ScAnd | BinOpKind::ScOr => with(expression),
        BinOpKind::Add => with(counted),
        BinOpKind::Concat => with(|operand| filtered(TEXT, Some(weighed(operand)), operand.span())),
        // The interpreter limits a product to 100 MB; the meter stops it before there is another.
        BinOpKind::Mul => filtered(SHALLOW, Some(with(counted)), node.span()),
        // Python's string formatting.
        BinOpKind::Rem => {
            let inner = Filter {
                name: PERCENT,
                expr: Some(weighed(&node.left)),
                args: vec![CallArg::Pos(weighed(&node.right))],
            };
            let inner = Expr::Filter(Spanned::new(inner, node.span()));
            filtered(SHALLOW, Some(inner), node.span())
        }
        _ => with(weighed),
    }
}

fn call<'a>(called: &Call<'a>) -> Call<'a> {
    let receiver = match &called.expr {
        // `self.name()` calls a block, not a method.
        Expr::GetAttr(s) if !matches!(&s.expr, Expr::Var(var) if var.id == "self") => {
            Expr::GetAttr(again(s, |g| GetAttr {
                expr: counted(&g.expr),
                name: g.name,
            }))
        }
        other => expression(other),
    };
    Call {
        expr: receiver,
        args: arguments(&called.args),
    }
}

fn arguments<'a>(args: &[CallArg<'a>]) -> Vec<CallArg<'a>> {
    let argument = |arg: &CallArg<'a>| match arg {
        CallArg::Pos(expr) => CallArg::Pos(weighed(expr)),
        CallArg::Kwarg(name, expr) => CallArg::Kwarg(name, weighed(expr)),
        CallArg::PosSplat(expr) => CallArg::PosSplat(weighed(expr)),
        CallArg::KwargSplat(expr) => CallArg::KwargSplat(weighed(expr)),
    };
    args.iter().map(argument).collect()
}

/// Returns a dictionary as Python has it: 1, 1.0 and true are one key, the first, with the last
/// value.
fn distinct<'a>(map: &Map<'a>) -> Map<'a> {
    let number = |key: &Expr<'a>| match key {
        Expr::Const(s) if s.value.kind() == ValueKind::Bool => Some(f64::from(s.value.is_true())),
        Expr::Const(s) => f64::try_from(s.value.clone()).ok(),
        _ => None,
    };
    let mut places = BTreeMap::new();
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (key, value) in map.keys.iter().zip(&map.values) {
        // Both zeros are one.
        let bits = number(key).map(|number| (number + 0.0).to_bits());
        match bits.and_then(|bits| places.insert(bits, keys.len())) {
            Some(place) => {
                places.extend(bits.map(|bits| (bits, place)));
                values[place] = weighed(value);
            }
            None => {
                keys.push(weighed(key));
                values.push(weighed(value));
            }
        }
    }
    Map { keys, values }
}

/// Weighs the whole value of an expression. A short constant needs no meter.
fn weighed<'a>(expr: &Expr<'a>) -> Expr<'a> {
    filtered(WEIGH, Some(expression(expr)), expr.span())
}

/// Returns an assignment target unchanged: a name, or a list of names.
fn target<'a>(expr: &Expr<'a>) -> Expr<'a> {
    match expr {
        Expr::List(s) => Expr::List(again(s, |l| List {
            items: l.items.iter().map(target).collect(),
        })),
        name => expression(name),
    }
}

/// Counts only the items of a value, or its bytes if it is a string.
fn counted<'a>(expr: &Expr<'a>) -> Expr<'a> {
    filtered(SHALLOW, Some(expression(expr)), expr.span())
}

fn filtered<'a>(name: &'static str, expr: Option<Expr<'a>>, span: Span) -> Expr<'a> {
    let args = Vec::new();
    Expr::Filter(Spanned::new(Filter { name, expr, args }, span))
}

fn again<T, U>(node: &Spanned<T>, make: impl FnOnce(&T) -> U) -> Spanned<U> {
    Spanned::new(make(node), node.span())
}
