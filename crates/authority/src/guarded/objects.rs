//! Buckets and what S3 knows of files beside their bytes: versions, holds, listings by key.

use std::collections::BTreeMap;

use archive::{
    ArchiveError, BucketInfo, BucketSettings, CloneOptions, Hold, KeyLine, KeyPage, KeyQuery, ObjectRemoved,
    ObjectStat, PutDone, StageOptions, VersionPage, VersionQuery, Which,
};
use base::{ArchivePath, Name};
use catalogue::Entry;
use identity::Rights;

use super::{Guarded, bucket_path, versioned};
use crate::locks::Touch;
use crate::roles::{Access, Objects};
use crate::seam::Download;

impl<E: Objects + Access + ?Sized> Objects for Guarded<E> {
    fn buckets(&self) -> Result<Vec<BucketInfo>, ArchiveError> {
        let mut found = Vec::new();
        for bucket in self.engine.buckets()? {
            if self.rule.has(Rights::STAT, &bucket_path(&bucket.name)?)? {
                found.push(bucket);
            }
        }
        Ok(found)
    }

    fn bucket(&self, name: &Name) -> Result<BucketInfo, ArchiveError> {
        self.rule.may("stat", Rights::STAT, &bucket_path(name)?)?;
        self.engine.bucket(name)
    }

    fn make_bucket(&self, name: &Name, owner: &str, set: &BucketSettings) -> Result<(), ArchiveError> {
        let path = bucket_path(name)?;
        self.rule.may_make("make-bucket", &path)?;
        self.rule.unlocked_new(&path)?;
        let owner = self.rule.acting(owner);
        self.rule.done("make-bucket", path, || self.engine.make_bucket(name, &owner, set))
    }

    fn set_bucket(&self, name: &Name, settings: &BucketSettings) -> Result<(), ArchiveError> {
        let path = bucket_path(name)?;
        self.rule.may("set-bucket", Rights::MANAGE, &path)?;
        self.rule.done("set-bucket", path, || self.engine.set_bucket(name, settings))
    }

    fn remove_bucket(&self, name: &Name) -> Result<(), ArchiveError> {
        let path = bucket_path(name)?;
        self.rule.may("remove-bucket", Rights::MODIFY, &path)?;
        self.rule.unlocked(&path, Touch::Tree)?;
        self.rule.done("remove-bucket", path, || self.engine.remove_bucket(name))
    }

    fn object(&self, path: &ArchivePath, which: Which) -> Result<ObjectStat, ArchiveError> {
        self.rule.may_version("stat", Rights::STAT, path, which)?;
        self.engine.object(path, which)
    }

    fn open_object(
        &self,
        path: &ArchivePath,
        which: Which,
        who: &str,
    ) -> Result<Box<dyn Download>, ArchiveError> {
        let who = self.rule.acting(who);
        let look = || self.rule.may_version("read", Rights::READ, path, which);
        self.opened(look, || self.engine.open_object(path, which, &who))
    }

    fn remove_object(
        &self,
        path: &ArchivePath,
        which: Which,
        bypass: bool,
    ) -> Result<ObjectRemoved, ArchiveError> {
        let rights = if bypass { Rights::MODIFY | Rights::MANAGE } else { Rights::MODIFY };
        self.rule.may_version("remove", rights, path, which)?;
        self.rule.unlocked(path, Touch::Tree)?;
        self.rule.done("remove", versioned(path, which), || self.engine.remove_object(path, which, bypass))
    }

    fn list_keys(&self, query: &KeyQuery) -> Result<KeyPage, ArchiveError> {
        self.may_list_keys("list", query)?;
        let mut page = self.engine.list_keys(query)?;
        self.keep_listable(&query.bucket, &mut page.lines)?;
        Ok(page)
    }

    fn list_versions(&self, query: &VersionQuery) -> Result<VersionPage, ArchiveError> {
        self.may_list_keys("list-versions", &query.keys)?;
        let mut page = self.engine.list_versions(query)?;
        self.keep_listable(&query.keys.bucket, &mut page.lines)?;
        Ok(page)
    }

    fn set_xattrs(
        &self,
        path: &ArchivePath,
        which: Which,
        changes: &[(String, Option<Vec<u8>>)],
    ) -> Result<(), ArchiveError> {
        self.rule.may_version("set-attributes", Rights::MODIFY, path, which)?;
        self.rule.unlocked(path, Touch::Itself)?;
        let what = versioned(path, which);
        self.rule.done("set-attributes", what, || self.engine.set_xattrs(path, which, changes))
    }

    fn set_hold(
        &self,
        path: &ArchivePath,
        which: Which,
        hold: Hold,
        bypass: bool,
    ) -> Result<(), ArchiveError> {
        self.rule.may_version("hold", Rights::MANAGE, path, which)?;
        self.rule.unlocked(path, Touch::Itself)?;
        self.rule.done("hold", versioned(path, which), || self.engine.set_hold(path, which, hold, bypass))
    }

    /// A copy may replace what is there, and nothing says that it may not: so creating is not enough.
    fn clone_object(
        &self,
        from: &ArchivePath,
        which: Which,
        to: &ArchivePath,
        mut options: CloneOptions,
    ) -> Result<PutDone, ArchiveError> {
        // The file that was looked at, whatever has its name by now.
        let which = match self.rule.may_version("read", Rights::READ, from, which)? {
            Some(Entry::File(file)) => Which::Version(file),
            Some(Entry::Directory(_)) => return Err(ArchiveError::IsADirectory(from.clone())),
            None => which,
        };
        // A macaroon may let delete without letting write.
        self.rule.may("copy", Rights::MODIFY | Rights::CREATE, to)?;
        self.rule.unlocked_put(to)?;
        if options.hold.is_some() {
            self.rule.may("hold", Rights::MANAGE, to)?;
        }
        options.who = self.rule.acting(&options.who);
        if !self.rule.is_admin() && options.attributes.is_none() {
            options.attributes = Some(self.engine.object(from, which)?.file.attributes);
        }
        if let Some(attributes) = &mut options.attributes {
            self.rule.own_up(attributes);
        }
        let what = format!("{} to {to}", versioned(from, which));
        self.rule.done("copy", what, || self.engine.clone_object(from, which, to, options))
    }

    fn change_class(&self, path: &ArchivePath, class: &str) -> Result<(), ArchiveError> {
        self.rule.may("change-class", Rights::MODIFY, path)?;
        self.rule.unlocked(path, Touch::Itself)?;
        self.rule.done("change-class", path, || self.engine.change_class(path, class))
    }

    fn restore_object(
        &self,
        path: &ArchivePath,
        which: Which,
        mut options: StageOptions,
    ) -> Result<bool, ArchiveError> {
        self.rule.may_version("restore", Rights::STAGE, path, which)?;
        options.owner = self.rule.acting(&options.owner);
        self.rule.done("restore", versioned(path, which), || self.engine.restore_object(path, which, options))
    }
}

impl<E: Access + ?Sized> Guarded<E> {
    /// Leaves out lines of directories below that the caller may not list.
    fn keep_listable(&self, bucket: &ArchivePath, lines: &mut Vec<KeyLine>) -> Result<(), ArchiveError> {
        if self.rule.is_admin() {
            return Ok(());
        }
        let mut known = BTreeMap::new();
        let mut kept = Vec::with_capacity(lines.len());
        for line in lines.drain(..) {
            if self.is_listable(Some(directory_of(bucket, &line)?), &mut known)? {
                kept.push(line);
            }
        }
        *lines = kept;
        Ok(())
    }

    /// Where a listing of keys looks: the directory that its prefix names, as far as it is one.
    fn may_list_keys(&self, verb: &'static str, query: &KeyQuery) -> Result<(), ArchiveError> {
        let directory = query.prefix.rsplit_once('/').map_or("", |(directory, _)| directory);
        let below = format!("{}/{directory}", query.bucket.as_str().trim_end_matches('/'));
        // A prefix that is no path is asked for at its bucket, where the right holds for all below.
        let below = if directory.is_empty() { None } else { ArchivePath::new(&below).ok() };
        self.rule.may(verb, Rights::LIST, below.as_ref().unwrap_or(&query.bucket))
    }
}

/// The directory that a line of a listing stands in.
fn directory_of(bucket: &ArchivePath, line: &KeyLine) -> Result<ArchivePath, ArchiveError> {
    let key = match line {
        KeyLine::Prefix(prefix) => prefix.as_str(),
        KeyLine::Object(object) => object.key.as_str(),
    };
    let directory = key.rsplit_once('/').map_or("", |(directory, _)| directory);
    if directory.is_empty() {
        return Ok(bucket.clone());
    }
    Ok(ArchivePath::new(&format!("{}/{directory}", bucket.as_str().trim_end_matches('/')))?)
}
