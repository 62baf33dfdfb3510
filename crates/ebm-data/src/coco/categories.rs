//! Categories and the labels that a model has for them.

use std::path::Path;

use super::file::CategoryRecord;
use crate::error::Error;

/// A category of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// Id in the annotation file; ids need not be contiguous.
    pub id: u64,
    /// The name.
    pub name: String,
    /// Label that a model uses, from 1. It is the position among the ids in ascending order. If the model has as many
    /// labels as the highest id, it is the id itself, as in torchvision's 90 labels for COCO's 80 categories.
    pub label: usize,
}

/// Returns the categories by ascending id, labelled by position. The error describes the first category without a
/// name, or with the id or the name of another one; or that the list is empty.
pub(super) fn valid(records: Vec<CategoryRecord>) -> Result<Vec<Category>, String> {
    let mut categories: Vec<Category> = Vec::with_capacity(records.len());
    for CategoryRecord { id, name } in records {
        let name = name.ok_or_else(|| format!("the category {id} has no name"))?;
        if categories.iter().any(|other| other.id == id || other.name == name) {
            return Err(format!("another category has the id {id} or the name {name:?}"));
        }
        categories.push(Category { id, name, label: 0 });
    }
    if categories.is_empty() {
        return Err("no categories".to_owned());
    }
    categories.sort_by_key(|category| category.id);
    (1..).zip(&mut categories).for_each(|(label, category)| category.label = label);
    Ok(categories)
}

/// Labels the categories of the file or folder `path` for a model with `labels` labels; `None` changes nothing.
pub(super) fn relabel(categories: &mut [Category], labels: Option<usize>, path: &Path) -> Result<(), Error> {
    let Some(labels) = labels.filter(|labels| *labels != categories.len()) else { return Ok(()) };
    let [lowest, highest] = [categories.first(), categories.last()].map(|c| c.map_or(0, |c| c.id));
    if lowest < 1 || highest != labels as u64 {
        let count = categories.len();
        let detail = format!("{count} categories (ids {lowest} to {highest}), but the model has {labels}");
        return Err(Error::categories(path.to_owned(), &detail));
    }
    categories.iter_mut().for_each(|category| category.label = category.id as usize);
    Ok(())
}

/// Returns the label, from 1, of the category `id`. The `categories` ascend by id.
pub(super) fn label(categories: &[Category], id: u64) -> Option<usize> {
    let index = categories.binary_search_by_key(&id, |category| category.id).ok()?;
    Some(categories.get(index)?.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(ids: &[u64], labels: usize) -> Result<Vec<usize>, String> {
        let record = |&id: &u64| CategoryRecord { id, name: Some(format!("c{id}")) };
        let mut categories = valid(ids.iter().map(record).collect())?;
        let relabelled = relabel(&mut categories, Some(labels), Path::new("a.json"));
        relabelled.map_err(|error| error.to_string())?;
        Ok(categories.iter().map(|category| category.label).collect())
    }

    #[test]
    fn labels_are_positions_or_ids() {
        assert_eq!(labelled(&[4, 1, 2], 3).unwrap(), [1, 2, 3]);
        assert_eq!(labelled(&[4, 1, 2], 4).unwrap(), [1, 2, 4]);
        let mismatch = labelled(&[1, 2, 4], 6).unwrap_err();
        assert!(mismatch.contains("3 categories (ids 1 to 4), but the model has 6"), "{mismatch}");
        assert!(labelled(&[1, 2, 4], 2).is_err() && labelled(&[0, 4], 4).is_err());
    }
}
