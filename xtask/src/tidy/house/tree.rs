//! The modules of a crate: what each defines, brings into scope and names.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Visibility};

use super::super::paths::{self, NamedPath};
use super::super::source::{SourceFile, is_test_only, predicates};

/// The files of the workspace by their paths.
pub(crate) type Sources = BTreeMap<PathBuf, SourceFile>;

/// A crate as a tree of modules. The first module is the root.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The package's name.
    pub(crate) name: String,
    pub(crate) modules: Vec<Module>,
}

/// One module: a file, or a part of one.
#[derive(Debug)]
pub(crate) struct Module {
    /// The names from the root to here; none for the root.
    pub(crate) path: Vec<String>,
    pub(crate) parent: usize,
    pub(crate) file: PathBuf,
    /// Whether it exists in test builds alone.
    pub(crate) is_test: bool,
    /// The predicates of all `cfg` attributes from the root to here.
    cfgs: Vec<String>,
    /// What a name means here; several things where namespaces or features differ.
    pub(crate) scope: HashMap<String, Vec<Meaning>>,
    /// What `use …::*` brings in.
    pub(crate) globs: Vec<NamedPath>,
    /// Every path in the module's declarations and code.
    pub(crate) named: Vec<NamedPath>,
    /// Types, traits and aliases that other modules may see.
    pub(crate) types: Vec<VisibleType>,
}

/// What a name in a module's scope means.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// An item of the module itself.
    Item,
    /// The child at this index.
    Child(usize),
    /// What this path means.
    Import(NamedPath),
}

/// A type, trait or alias that is `pub` to any degree.
#[derive(Debug)]
pub(crate) struct VisibleType {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// All `cfg` predicates that it depends on.
    pub(crate) cfgs: Vec<String>,
}

impl Tree {
    /// Reads a crate from its root file on. Files that are not among the sources are left out.
    pub(crate) fn read(name: &str, root: &Path, sources: &Sources) -> Self {
        let mut tree = Self { name: name.to_owned(), modules: Vec::new() };
        if let Some(source) = sources.get(root) {
            let folder = root.parent().unwrap_or(Path::new(""));
            let (path, cfgs) = (Vec::new(), Vec::new());
            let place = ModulePosition { path, parent: 0, file: root, folder, is_test: false, cfgs };
            tree.add(place, &source.syntax.items, sources);
        }
        tree
    }

    fn add(&mut self, place: ModulePosition<'_>, items: &[Item], sources: &Sources) -> usize {
        let index = self.modules.len();
        self.modules.push(Module {
            path: place.path.clone(),
            parent: place.parent,
            file: place.file.to_owned(),
            is_test: place.is_test,
            cfgs: place.cfgs.clone(),
            scope: HashMap::new(),
            globs: Vec::new(),
            named: Vec::new(),
            types: Vec::new(),
        });
        for item in items {
            match item {
                Item::Mod(module) => self.add_children(&place, index, module, sources),
                item => {
                    self.modules[index].visit_item(item);
                    if let Some(name) = exported_macro(item) {
                        let path = place.path.iter().map(String::as_str);
                        let names = ["crate"].into_iter().chain(path).chain([name.as_str()]);
                        let path = NamedPath { names: names.map(str::to_owned).collect(), line: 1 };
                        self.modules[0].scope.entry(name).or_default().push(Meaning::Import(path));
                    }
                }
            }
        }
        index
    }

    /// Adds a child, or both where a feature chooses between two files.
    fn add_children(
        &mut self,
        place: &ModulePosition<'_>,
        parent: usize,
        module: &syn::ItemMod,
        sources: &Sources,
    ) {
        let folder = place.folder.join(module.ident.to_string());
        let own = [folder.with_extension("rs"), folder.join("mod.rs")];
        let chosen = path_attributes(&module.attrs).map(|path| place.file.with_file_name(path));
        let files = own.into_iter().chain(chosen).filter_map(|file| sources.get(&file));
        let files = files.map(|source| (source.path.as_path(), &source.syntax.items));
        let inline = module.content.as_ref().map(|(_, items)| (place.file, items));
        let is_test = place.is_test || is_test_only(&module.attrs);
        for (file, items) in files.filter(|_| inline.is_none()).chain(inline) {
            let path = place.path.iter().cloned().chain([module.ident.to_string()]).collect();
            let cfgs = place.cfgs.iter().cloned().chain(predicates(&module.attrs)).collect();
            let child = self.add(
                ModulePosition { path, parent, file, folder: &folder, is_test, cfgs },
                items,
                sources,
            );
            self.modules[parent].bind(&module.ident, Meaning::Child(child));
        }
    }
}

/// Where a module stands.
struct ModulePosition<'a> {
    path: Vec<String>,
    parent: usize,
    file: &'a Path,
    /// Where the files of its children are.
    folder: &'a Path,
    is_test: bool,
    cfgs: Vec<String>,
}

/// The files that `#[path = "…"]` and `#[cfg_attr(…, path = "…")]` name.
fn path_attributes(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    let texts = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(meta) if meta.path.is_ident("path") => match &meta.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        syn::Meta::List(list) if list.path.is_ident("cfg_attr") => {
            let tokens = list.tokens.to_string();
            let (_, path) = tokens.rsplit_once("path = \"")?;
            Some(path.trim_end_matches('"').to_owned())
        }
        _ => None,
    });
    texts.collect::<Vec<_>>().into_iter()
}

/// The name of a macro that `#[macro_export]` puts at the root.
fn exported_macro(item: &Item) -> Option<String> {
    let Item::Macro(item) = item else { return None };
    let is_exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
    item.ident.as_ref().filter(|_| is_exported).map(ToString::to_string)
}

impl Module {
    fn bind(&mut self, name: &syn::Ident, meaning: Meaning) {
        self.scope.entry(name.to_string()).or_default().push(meaning);
    }

    fn define(&mut self, name: &syn::Ident) {
        self.bind(name, Meaning::Item);
    }

    fn define_type(&mut self, name: &syn::Ident, visibility: &Visibility, attributes: &[Attribute]) {
        self.define(name);
        if !matches!(visibility, Visibility::Inherited) {
            self.types.push(VisibleType {
                name: name.to_string(),
                line: name.span().start().line,
                cfgs: self.cfgs.iter().cloned().chain(predicates(attributes)).collect(),
            });
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes(item)) {
            return;
        }
        match item {
            Item::Struct(item) => self.define_type(&item.ident, &item.vis, &item.attrs),
            Item::Enum(item) => self.define_type(&item.ident, &item.vis, &item.attrs),
            Item::Union(item) => self.define_type(&item.ident, &item.vis, &item.attrs),
            Item::Trait(item) => self.define_type(&item.ident, &item.vis, &item.attrs),
            Item::TraitAlias(item) => self.define_type(&item.ident, &item.vis, &item.attrs),
            Item::Type(item) => self.define_type(&item.ident, &item.vis, &item.attrs),
            Item::Const(item) => self.define(&item.ident),
            Item::Static(item) => self.define(&item.ident),
            Item::Fn(item) => self.define(&item.sig.ident),
            Item::Macro(item) => item.ident.iter().for_each(|ident| self.define(ident)),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        for leaf in paths::leaves(&item.tree) {
            self.named.push(leaf.path.clone());
            match leaf.bound {
                Some(name) => self.scope.entry(name).or_default().push(Meaning::Import(leaf.path)),
                None => self.globs.push(leaf.path),
            }
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test_only(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.named.extend(NamedPath::read(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.named.extend(paths::in_tokens(&call.tokens));
    }

    /// Attributes are read by the compiler or by derives, not by this code.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
